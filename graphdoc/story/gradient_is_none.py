"""How a gradient is told of that is None where it is read."""

from __future__ import annotations

from graphdoc.program.spans import innermost_user, where
from graphdoc.program.unset_gradients import Unset, Why
from graphdoc.story.wording import folded

_TITLES = {
    Why.FROZEN: "`{read}` is None: `{name}` is frozen",
    Why.UNCALLED: "`{read}` is None: no backward call has been made yet",
    Why.CLEARED: "`{read}` is None: the gradients have been cleared before it is read",
    Why.LEFT_OUT: "`{read}` is None: the loss does not reach `{name}`",
    Why.TAKEN: "`{read}` is None: the gradient of `{name}` has been taken away again",
}
_EXPLAINED = {
    Why.FROZEN: "`{name}` has `requires_grad=False`, so backward computes no gradient for it.",
    Why.UNCALLED: "`.grad` is None until a backward call has filled it for the first time.",
    Why.CLEARED: "`zero_grad()` sets `.grad` to None, and no backward call has filled it since.",
    Why.LEFT_OUT: "Backward fills `.grad` of the leaf tensors that the loss depends on. `{name}` is not among them, so "
    "its `.grad` stays None. If it is to learn from this loss, the way to it is missing.",
    Why.TAKEN: "A backward call has reached `{name}`, and its `.grad` is None now: `zero_grad()` of a module and "
    "`.grad = None` take it away, and a custom Function may have given none.",
}


def title(unset: Unset) -> str:
    """The report's headline."""
    return _TITLES[unset.why].format(read=f"{unset.name}.grad", name=unset.parameter.name)


def explanation(unset: Unset) -> str:
    """What it means."""
    return _EXPLAINED[unset.why].format(name=unset.parameter.name)


def because(unset: Unset) -> str:
    """The evidence, in one sentence; empty where the title has said it all."""
    clear = where(innermost_user(unset.clear.stack)) if unset.clear is not None else ""
    last = where(innermost_user(unset.last.stack)) if unset.last is not None else ""
    if unset.why is Why.CLEARED:
        after = f", after the backward call at {last}" if last else ""
        return f"zero_grad() at {clear} sets it to None{after}, and no backward call has come since"
    if unset.why is not Why.LEFT_OUT:
        return ""
    told = folded(unset.beside, beside=(unset.parameter.name,)) if unset.proven else ""
    many = len(unset.calls) > 1
    reach = f"reach{'' if many else 'es'} {told} and not `{unset.parameter.name}`" if told else ""
    calls = f"{'the backward calls' if many else 'the backward call'} since" if clear else "the backward calls"
    if not clear and not many:
        calls = "the only backward call"
    parts = [f"zero_grad() at {clear} sets it to None" if clear and last else "", f"{calls} {reach}" if reach else ""]
    return ", and ".join(p for p in parts if p)
