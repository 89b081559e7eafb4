"""GD717: a kept `state_dict()` is the module's own memory, and to load it later restores nothing."""

from __future__ import annotations

from graphdoc.causes import links
from graphdoc.causes.base import Page
from graphdoc.evidence import Sign
from graphdoc.finding import COPY, Finding, remedy_at
from graphdoc.program import bindings
from graphdoc.program.gradient_reads import written_through
from graphdoc.program.observed import Program
from graphdoc.program.proof import likely
from graphdoc.program.spans import innermost_user, span, span_of
from graphdoc.program.written_out import call_made
from graphdoc.source.module import is_method_call
from graphdoc.source.paths import path_of, without_subscripts
from graphdoc.story.wording import first_told, folded, optimizer_of

PAGE = Page(
    code="GD717",
    title="A kept `state_dict()` is not a copy: loading it restores nothing",
    families=("silent",),
    what_happened="""\
The program keeps `model.state_dict()` to come back to it: the best weights so far, the weights before a test, those
before each task. It trains on and then calls `load_state_dict()` with what it has kept. Not one number changes. What
was kept are the parameters themselves, which have been trained since.""",
    why="""\
`state_dict()` returns a new dictionary of references: each entry shares its memory with a parameter or a buffer, and
the optimizer writes into that memory in place. `.cpu()`, `.detach()` and `dict(…)` make no copy of a tensor on the CPU.
`load_state_dict()` then copies each parameter into itself.""",
    example="""\
best = model.state_dict()
for x, y in loader:
    optimizer.zero_grad()
    loss_fn(model(x), y).backward()
    optimizer.step()
model.load_state_dict(best)""",
    use_instead="""\
best = copy.deepcopy(model.state_dict())
for x, y in loader:
    optimizer.zero_grad()
    loss_fn(model(x), y).backward()
    optimizer.step()
model.load_state_dict(best)""",
    fix_safety="""\
Unsafe, because the program goes on with other weights than before: with those that it had kept. A copy needs the memory
of one more model.""",
    not_this="""\
- The load brings the old numbers back, at each step: `steps-without-effect`.
- The kept tensors are gradients: `grad-aliased`.
- `torch.save(model.state_dict(), path)` writes a copy to the disk: no fault.""",
    references=(links.LOAD_STATE_DICT, "torch.nn.Module.state_dict", "copy.deepcopy"),
)


def recognise(program: Program) -> Finding | None:
    """What was loaded is the module's own, taken before a change, and the program does not change it by this name."""
    return first_told(program, ("restored-itself", _told))


def _told(program: Program, sign: Sign) -> Finding | None:
    sources, taken = program.sources, innermost_user(sign.other)
    at, call = call_made(sources, sign.stack, values=False) or (None, None)
    state = bindings.argument(call, 0, "state_dict") if is_method_call(call, "load_state_dict") else None
    if at is None or call is None or taken is None or state is None:
        return None  # a function of another package loads it: under which name it is kept is not known
    if written_through(sources, at.file, path_of(state) or bindings.text_of(without_subscripts(state)), at.line):
        return None
    stepped = sign.facts["by"] == "step"
    by = f"{optimizer_of(program.optimizers, sign)} has stepped" if stepped else "another state was loaded"
    weight = likely(0.92)  # that nothing is restored is seen; that a copy was meant is not
    title = f"`{bindings.text_of(call)}` restores nothing: `{bindings.text_of(state)}` is no copy"
    text = f"`state_dict()` returns the parameters' own tensors. Since then {by}: what was kept has changed as well."
    spans = (
        *span_of("cause", sign.other, "taken without a copy: shares its memory with the parameters"),
        span("consumed", at, "copies each tensor into itself"),
    )
    note = "the load brings back the numbers from when the state was taken"
    remedies = remedy_at(taken, "rewrite", "keep a copy of the state", "unsafe", note, pairs=COPY)
    because = f"each loaded tensor shares its memory with its parameter, and {by} since this state was taken "
    because += f"({folded(sign.parameters)})"
    return Finding(*weight, title, text, spans, remedies=remedies, because=because)
