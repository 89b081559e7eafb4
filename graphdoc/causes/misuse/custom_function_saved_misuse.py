"""GD507: a torch.autograd.Function is wired wrongly: its ctx, what it saves, or the way it is called."""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace

from graphdoc.causes import links
from graphdoc.causes.base import Page
from graphdoc.evidence import OTHER_DERIVATIVE, WRITTEN_OVER, Frame, Node, SourceTexts
from graphdoc.finding import Finding, Remedy, edit_at, together
from graphdoc.messages.ways_out import rows
from graphdoc.program import bindings
from graphdoc.program.custom_functions import backward_of, forward_of, kept_besides, saved_again, used
from graphdoc.program.exception import called_by_autograd, unpacked_wrongly
from graphdoc.program.observed import Program
from graphdoc.program.proof import Proof, first_sign, likely
from graphdoc.program.spans import innermost_user, span, span_of
from graphdoc.remedies.gradients import of_today
from graphdoc.remedies.open_derivatives import without_backward, written_backward
from graphdoc.source.module import each
from graphdoc.source.paths import covers
from graphdoc.story.wording import folded

PAGE = Page(
    code="GD507",
    title="A custom Function misuses its ctx: what it saves, marks or how it is called",
    what_happened="""\
A `torch.autograd.Function` breaks one of the rules of its `ctx`:

- `ctx.save_for_backward` was given something that is no tensor: a number, a shape, a list;
- `save_for_backward` was called twice: the second call replaces the first, and `saved_tensors` in backward has fewer
  entries than are unpacked;
- `ctx.mark_dirty` names an input that was changed in place and is not returned as it is;
- `forward` has no `ctx` although there is no `setup_context`, is no `@staticmethod`, or the class was instantiated
  and called instead of `.apply`;
- there is no `backward`;
- it writes in place to what it is given: its backward to the gradient, which another operation is given as well, or
  its forward, by way of `data`, to a result that an operation before it has saved. Nothing fails, and the gradients
  are wrong;
- a loss is computed from a gradient (a force, a gradient penalty), and backward uses what forward computed on the way:
  the second derivative takes it as constant. Nothing fails, and the gradients are wrong.""",
    why="""\
`save_for_backward` is how PyTorch watches a tensor from the forward to the backward: it counts in-place writes to it,
frees it after the backward, and avoids a reference cycle when an output is saved. It can do that for tensors only:
*save_for_backward can only save variables, but argument 0 is of type float*. Everything else goes on `ctx` as a plain
attribute.

The other way round it is not noticed. A tensor that is kept as `ctx.x = x` escapes these checks: if it is changed in
place before the backward, the gradient is silently wrong, where `save_for_backward` would have raised; and a second
backward through a graph that was freed goes through.

What backward is given may be the gradient of several operations at once: an addition hands the same tensor to both of
its sides. No version counter watches it. In a second run graphdoc gives the Function copies: if every loss is the same
bit for bit then, and other parameters get another gradient, the writes are the reason.

Since 2.0 there are two styles: `forward(ctx, ...)`, or `forward(...)` with `setup_context(ctx, inputs, output)`.
Mixing them gives errors about the number of arguments.""",
    example="""\
class Clip(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, low):
        ctx.save_for_backward(x, low)  # low is a float
        return x.clamp(min=low)""",
    use_instead="""\
class Clip(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, low):
        ctx.save_for_backward(x)  # inputs and outputs that are tensors
        ctx.low = low  # everything else
        return x.clamp(min=low)""",
    fix_safety="""\
Safe: where a value is kept changes neither the forward nor the gradient. Save inputs and outputs with
`save_for_backward`, in one call; intermediate tensors can be saved there as well, but then the function cannot be
differentiated twice through them unless they are returned as outputs.

Unsafe where backward writes to what it is given: with a new tensor instead, others get the gradient of the loss, which
is another one than they had.

A missing backward is written with placeholders: one for each gradient, which only its author knows.

If nothing but a formula is wanted, ordinary tensor operations are shorter than a Function and have their derivative
for free. For a forward that should pass gradients unchanged, `x + (f(x) - x).detach()` does it.""",
    not_this="""\
- The backward runs and what it returns is refused: `custom-function-bad-gradient`.
- A saved tensor was changed in place afterwards: *modified by an inplace operation*: `inplace-on-saved-activation`.
- *backward through the graph a second time (or directly access saved tensors after they have already been freed)*:
  the graph was used twice; see the GD1 causes.""",
    references=(
        ("Extending torch.autograd: how to use", "notes/extending.html#how-to-use"),
        "torch.autograd.function.FunctionCtx.save_for_backward",
        links.SAVED_TENSORS,
    ),
)


_NO_BACKWARD, _OLD_STYLE = "function-no-backward", "function-legacy-nonstatic"


@dataclass(frozen=True)
class _Misuse:
    """Messages (by id), the statement of the class that they are about (looked for in the source), what to say.

    ``title`` goes on behind the name of the Function, ``label`` stands at the place.
    """

    ids: tuple[str, ...]
    looks_for: str
    title: str
    label: str
    text: str


_MISUSES = [_Misuse(tuple(ids.split()), *said) for ids, *said in rows("function_misuse", 5)]


def recognise(program: Program) -> Finding | None:
    """One of the messages of ``torch.autograd.Function``, or a backward that unpacks more than was saved."""
    known = next((m for m in _MISUSES if program.message(*m.ids)), None) or _arguments(program)
    told = _told(program, known) if known is not None else None
    return told or _saved_twice(program) or _written_over(program) or _second(program)


_WHOLE = "The other operation is given the gradient as it was. The Function gives back what it did; one more tensor."


def _written_over(program: Program) -> Finding | None:
    """No error: on copies of what it is given the Function gives other parameters another gradient."""
    sign = first_sign(program.signs, WRITTEN_OVER)
    function = next(used(sign.facts), None) if sign is not None else None
    write = innermost_user(sign.stack) if sign is not None else None
    if sign is None or function is None or write is None:
        return None
    side, whose = str(sign.facts["functions"][0]["side"]), folded(sign.parameters)
    what, reader = {
        "backward": ("a gradient that others are given as well", "is given as well"),
        "forward": ("a result that backward still needs", "has saved for its backward"),
    }[side]
    edit = edit_at("out_of_place", write)
    title = f"`{function.name}.{side}` writes over {what}"
    text = f"It writes to a tensor that another operation {reader}. No version counter tells of it. The gradient of "
    text += f"{whose} is not that of the loss."
    spans = (
        span("cause", write, "writes to what the Function is given"),
        *span_of("created", function.apply, "is applied here"),
        *span_of("related", sign.other, "computes gradients with what was written"),
    )
    remedies = tuple(together([edit], "compute out of place", "unsafe", _WHOLE)) if side == "backward" else ()
    because = f"at {sign.count} steps, given copies, it left the same loss bit for bit, and other gradients"
    return Finding(*Proof.RERUN.at(0.97), title, text, spans, remedies=remedies, because=because)


def _second(program: Program) -> Finding | None:
    """No error: a loss is computed from its gradient, and the derivative of that is another one. Whose backward says
    itself that something is a constant means it."""
    sign = first_sign(program.signs, OTHER_DERIVATIVE)
    function = next(used(sign.facts), None) if sign is not None else None
    at = backward_of(program.sources, function) if function is not None else None
    if sign is None or function is None or at is None or not sign.facts["functions"][0].get("twice"):
        return None
    if any(n.attr in _MEANT for n in each(at[1], ast.Attribute)):
        return None
    forward, whose = forward_of(program.sources, *at), folded(sign.parameters) or "what it was computed from"
    kept = kept_besides(forward) if forward is not None else []
    names = " and ".join(f"`{n}`" for n in dict.fromkeys(map(bindings.text_of, kept)))
    name, head = f"`{function.name}.backward`", replace(bindings.frame_of(program.sources, *at, "backward"), column=0)
    title = f"second derivatives of `{function.name}` are wrong"
    title += f": they take {names} as constant" * (0 < len(names) < 20)
    text = f"The loss is computed from a gradient, so PyTorch differentiates {name} too."
    if kept:
        text += " What forward computes is not recorded: to autograd it is a constant. Compute it again in "
        text += f"{name} from what forward was given."
    marks = [bindings.frame_of(program.sources, at[0], n) for n in kept] or [head]
    label = "computed in forward: has no graph" if kept else "its result has another derivative than autograd finds"
    spans = (
        *(span("cause", f, label) for f in marks[:3]),
        *span_of("created", function.apply, "is applied here"),
        *span_of("related", sign.other, "takes it for the gradient of the loss"),
    )
    because = f"at {sign.count} steps its inputs were moved, and its gradient moved otherwise than autograd says; the "
    because += f"gradient of {whose} is not that of the loss"
    remedies = (_AGAIN,) if kept else ()
    return Finding(*likely(0.9), title, text, spans, remedies=remedies, because=because)


_MEANT = ("detach", "no_grad", "data")
_AGAIN = Remedy(
    "display",
    "Save what forward was given with `save_for_backward`, and compute the rest in backward",
    "display",
    "Backward then computes it once more. What forward returns may be saved too: autograd knows its derivative.",
)


def _told(program: Program, known: _Misuse) -> Finding:
    frame = program.raised_at
    name, places = _statements(program.sources, frame, known.looks_for)
    name = name or program.field("op", "function-ctx-attribute").removesuffix("Backward")
    alone = without_backward(program) if _NO_BACKWARD in known.ids else None
    if alone is not None:
        return _alone(program, known, *alone)
    here = frame if frame and (not known.looks_for or any(f.line == frame.line for f in places)) else None
    marks = [here] if here else places if len(places) == 1 else [frame] if frame else []
    title = f"`{name}` {known.title}" if name else f"A custom Function {known.title}"
    spans = (*(span("cause", f, known.label) for f in marks), *program.raised_span(""))
    facts = (program.first_line,)
    remedies = of_today(program.sources, frame) if _OLD_STYLE in known.ids else ()
    return Finding(*program.weight(0.9, Proof.RAISED.confidence), title, known.text, spans, facts, remedies)


def _alone(program: Program, known: _Misuse, file: str, forward: ast.FunctionDef, node: Node) -> Finding:
    """A forward without a backward beside it, by the node at which the engine has stopped."""
    name, applied = node.op.removesuffix("Backward"), innermost_user(node.stack)
    head = replace(bindings.frame_of(program.sources, file, forward, "forward"), column=0)
    title = f"`{name}` {known.title}"
    spans = (
        span("cause", head, "has no `backward` beside it"),
        *span_of("created", applied, f"`{name}` is applied here"),
        *program.raised_span(known.label),
    )
    facts = (program.first_line,)
    remedies = written_backward(program, file, forward, applied)
    return Finding(*program.weight(0.9, Proof.RAISED.confidence), title, known.text, spans, facts, remedies)


def _arguments(program: Program) -> _Misuse | None:
    """``apply`` has called a forward with another number of arguments than it takes; a backward is another cause's."""
    found = program.message("function-forward-missing-ctx")
    if found is None or found.fields.get("fn", "").endswith(".backward") or not called_by_autograd(program.raised):
        return None
    function, _, method = found.fields["fn"].rpartition(".")
    takes, given = int(found.fields["n"]), int(found.fields["m"])
    at = bindings.method(program.sources, function.rpartition(".")[2], method) if function else None
    first = next(iter((*at[1].args.posonlyargs, *at[1].args.args)), None) if at is not None else None
    called = f"`{method}` takes {takes} argument{'s' if takes != 1 else ''}, and `apply` gives it {given}"
    if method == "forward" and (takes == 1 or (first is not None and first.arg not in _CONTEXT)):
        text = f"{called}: `ctx` is the first. Take it, or put what uses it into `setup_context`."
    else:
        text = f"{called}. Both numbers count `ctx`."
    return _Misuse((), "", "is applied to another number of arguments than it takes", f"gives `{method}` {given}", text)


_CONTEXT = ("ctx", "context", "self", "_", "c")


def _statements(sources: SourceTexts, frame: Frame | None, looks_for: str) -> tuple[str, list[Frame]]:
    """The Function whose ``apply`` was running, by name, and the calls of this name in it; in all of the sources where
    another line raised."""
    places = bindings.calls_named(sources, looks_for) if looks_for else []
    call = bindings.call_at(sources, frame)
    name, _, method = bindings.text_of(call.func).rpartition(".") if call is not None else ("", "", "")
    if method != "apply" or not name.isidentifier():
        return "", places
    own = [(file, node) for file, node in bindings.everywhere(sources, ast.ClassDef) if node.name == name]
    inside = [p for p in places for file, n in own if p.file == file and covers(n, p.line)]
    return (name if own else ""), inside


def _saved_twice(program: Program) -> Finding | None:
    """*not enough values to unpack* where a Function unpacks ``saved_tensors`` and saves them in two calls."""
    saved = saved_again(program.sources) if unpacked_wrongly(program.evidence.message) else None
    if saved is None:
        return None
    title = "a custom Function calls `save_for_backward()` more than once: only the last call counts"
    text = "Each call replaces what the call before has saved. Save all tensors in one call."
    spans = (
        *(span("cause", f, "one of several calls: the last replaces the others") for f in saved.calls),
        span("related", saved.unpacked, "more is unpacked than was saved"),
        *program.raised_span("noticed when this backward runs"),
    )
    return Finding(*likely(0.85), title, text, spans)
