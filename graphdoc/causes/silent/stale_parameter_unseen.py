"""GD709: a parameter was written between a forward and its backward where no version counter tells."""

from __future__ import annotations

import ast
from dataclasses import replace

from graphdoc.causes import links
from graphdoc.causes.base import Page
from graphdoc.evidence import ASSIGNED, SAVED_OVER, Frame, Sign
from graphdoc.finding import Finding
from graphdoc.model import Span
from graphdoc.program import bindings
from graphdoc.program.observed import Program
from graphdoc.program.overwrites import Fault, Overwrite, Saved
from graphdoc.program.proof import Proof, first_sign, likely
from graphdoc.program.spans import innermost_user, span, span_of
from graphdoc.program.update_function import scene
from graphdoc.remedies.in_place_write import move_behind
from graphdoc.remedies.update_order import covered_remedies, stepped_remedies
from graphdoc.source.module import walked
from graphdoc.story.overwrite import stepped_and_before, story, trust
from graphdoc.story.wording import folded

PAGE = Page(
    code="GD709",
    title="Parameters change between a forward and its backward, and PyTorch does not notice",
    families=("silent",),
    what_happened="""\
Two losses come from one forward pass, and the optimizer steps between their two `backward()` calls. With most
optimizers PyTorch refuses the second call: a parameter that it needs has been modified. With `fused=True` there is no
error. The second call combines activations of the old parameters with the new parameters, and its gradient belongs to
neither. The same happens where a program writes to `p.data` between a forward and its backward: averaged weights that
are copied in for a measurement, say, and are not taken back; or `self.weight.data = F.normalize(self.weight.data)` in a
forward that has used the weight before.""",
    why="""\
Every in-place operation raises a tensor's version counter, and a backward compares it with the version at which a
tensor was saved. The fused kernels of Adam, AdamW and SGD write the parameters without raising it (as do writes to
`.data`), so there is nothing to compare. Nor does `p.data = x` protect what was saved: a graph saves a parameter as
itself, and backward reads the new memory.""",
    example="""\
optimizer = torch.optim.AdamW(net.parameters(), fused=True)
first, second = losses(net(x))
first.backward(retain_graph=True)
optimizer.step()
optimizer.zero_grad()
second.backward()
optimizer.step()""",
    use_instead="""\
optimizer = torch.optim.AdamW(net.parameters(), fused=True)
first, _ = losses(net(x))
first.backward()
optimizer.step()
optimizer.zero_grad()
_, second = losses(net(x))
second.backward()
optimizer.step()""",
    fix_safety="""\
Unsafe, because it decides what the second loss is measured on: on the new parameters (run the forward again), or on the
old ones (one step for both losses). Dropping `fused=True` alone turns the silence into PyTorch's error; so does writing
to `p` under `torch.no_grad()` in the place of `p.data`.""",
    not_this="""\
- PyTorch raised the error about an in-place operation: `optimizer-step-before-backward`.
- What was written is an activation or a buffer: `inplace-on-saved-activation`, `buffer-updated-in-place`.""",
    references=(links.IN_PLACE, links.OPTIM),
)


_NEEDS = "needs the values from before the step, and PyTorch does not notice that they have changed"


def recognise(program: Program) -> Finding | None:
    """The evidence is that of the error which another optimizer would have caused; so are the remedies."""
    sign, found = program.evidence.as_if, program.overwrite
    if sign is None:
        over = first_sign(program.signs, SAVED_OVER)
        return _measured(over) if over is not None else None
    if sign.facts.get("hidden"):
        return _hidden(program, sign)
    if sign.kind != "stale-parameter" or found is None or found.fault not in (Fault.STEPPED, Fault.COVERED_UP):
        return None
    return _fused(program, sign, found)


def _fused(program: Program, sign: Sign, found: Overwrite) -> Finding:
    whose = folded(sign.parameters)
    title = f"a fused step changes {whose or 'parameters'} between forward and backward, unnoticed"
    text = "The fused optimizer writes its parameters without raising their version, so PyTorch does not refuse this "
    text += "backward. Its gradient combines old activations with new parameters."
    spans = tuple(
        replace(s, label=_NEEDS) if s.role == "failed" else s
        for s in story(program.evidence, found, _causes(program, found))
    )
    remedies = (covered_remedies if found.fault is Fault.COVERED_UP else stepped_remedies)(program, found)
    because = "this backward needs values that were saved before the step, and the step has changed them"
    return Finding(1.0, trust(found, 0.96)[1], title, text, spans, remedies=remedies, covers="GD2", because=because)


def _hidden(program: Program, sign: Sign) -> Finding | None:
    """A write through ``.data``, which a second run has seen happen."""
    found = program.overwrite
    writer, stale = innermost_user(sign.other), next(iter(program.evidence.stale), None)
    node = program.node(stale.node) if stale is not None else None
    if writer is None:
        return None
    whose = folded(sign.parameters) or "parameters"
    hidden = sign.facts["hidden"]
    deed = "`.data = ...` gives other values" if hidden == ASSIGNED else f"`{hidden}()` writes"
    callers = [f for f in sign.other if f.user and (f.file, f.line) != (writer.file, writer.line)]
    spans = (
        span("cause", writer, f"{deed} after the forward, and PyTorch does not notice"),
        *(span("cause", f, "the values are overwritten in this call") for f in callers[-1:]),
        *(span_of("created", node.stack, "this forward used the old values") if node else ()),
        *span_of("failed", sign.stack, "multiplies old activations with new parameters"),
    )
    title = f"{whose} {'is' if len(sign.parameters) == 1 else 'are'} overwritten through `.data` between forward and "
    title += "backward"
    text = "A write to `.data` raises no version, so PyTorch does not refuse this backward. Its gradient is one of "
    text += "neither the old parameters nor the new. Write before the forward or after the step, and put back what was "
    text += "there if the write was for a measurement only."
    remedies = tuple(move_behind(program, found)) if found and _may_move(program, found, sign, writer) else ()
    because = "in a second run the values that the forward had saved were others when backward began, but not their "
    because += "version"
    return Finding(*Proof.STEPS.at(0.97), title, text, tuple(spans), remedies=remedies, covers="GD2", because=because)


def _measured(sign: Sign) -> Finding:
    """What the forward has saved is overwritten, whoever holds that memory: a slot that layers take turns in."""
    whose = folded(sign.parameters)
    made = [Frame(**f) for f in sign.facts["made"]]
    weight = likely(0.96)  # that it is another gradient is measured; that it is none on purpose is not
    title = f"{whose} {'get' if len(sign.parameters) > 1 else 'gets'} a wrong gradient: saved values are overwritten"
    text = "A forward has saved these values for its backward, and they are changed before backward reads them. That "
    text += "does not raise the version of what was saved, so PyTorch raises no error. Load the values again before "
    text += "backward reads them, or give each layer memory of its own."
    spans = (
        *span_of("cause", sign.stack, "changes what a forward has saved"),
        *span_of("created", made, "saves it for backward"),
        *span_of("failed", sign.other, "reads what was written since"),
    )
    because = f"at {sign.count} steps backward was given the values that the forward had saved: the loss was the same "
    because += "bit for bit, and the gradient another"
    return Finding(*weight, title, text, spans, because=because)


def _may_move(program: Program, found: Overwrite, sign: Sign, writer: Frame) -> bool:
    """Whether the write belongs behind the backward: values from elsewhere may have to be taken back instead."""
    if found.saved is not Saved.PARAMETER or sign.facts["hidden"] not in ("copy_", ASSIGNED):
        return found.saved is Saved.PARAMETER
    match bindings.statement_at(program.sources, writer):
        case ast.Assign(targets=[ast.Attribute(value=written)], value=given):
            return bindings.text_of(written) in map(bindings.text_of, walked(given))
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Attribute(value=written)), args=[given, *_])):
            return bindings.text_of(written) in map(bindings.text_of, walked(given))
    return False


def _causes(program: Program, found: Overwrite) -> list[Span]:
    """The step, and the forward that ran before it."""
    at = scene(program, found)
    step, forwards = stepped_and_before(found, at.lines[:2] if at is not None else ())
    return step + forwards
