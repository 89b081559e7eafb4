"""GD716: an optimizer steps by good gradients, and nothing of its steps is left."""

from __future__ import annotations

import ast

from graphdoc.causes import links
from graphdoc.causes.base import Page
from graphdoc.evidence import UNDONE, Frame, Sign
from graphdoc.finding import Finding, Remedy
from graphdoc.program import bindings
from graphdoc.program.observed import Program
from graphdoc.program.proof import Proof, likely, name_of
from graphdoc.program.spans import code_at, innermost_user, of_sign, span_of
from graphdoc.source.paths import is_name, only, path_of
from graphdoc.story.wording import first_told, folded, opening, optimizer_of

PAGE = Page(
    code="GD716",
    title="An optimizer steps and nothing of its steps is left",
    families=("silent",),
    what_happened="""\
The gradients are right and the optimizer steps, but the parameters get nowhere. Either the program writes their old
numbers back after each step: `load_state_dict` of an early copy stands inside the loop, or the best weights are
restored at every batch. Or the learning rate is zero at every step, because a schedule multiplies it by 0.""",
    why="""\
`step()` changes the parameters in place, and `load_state_dict()` overwrites them in place: the later one counts. A
`LambdaLR` multiplies the initial rate by what its function returns. `epoch // 1000` is 0 for a thousand epochs, and a
warm-up that is asked once an epoch is 0 for the whole first one.""",
    example="""\
for x, y in loader:
    loss_fn(model(x), y).backward()
    optimizer.step()
    optimizer.zero_grad()
    model.load_state_dict(best)  # takes each step back""",
    use_instead="""\
for x, y in loader:
    loss_fn(model(x), y).backward()
    optimizer.step()
    optimizer.zero_grad()
model.load_state_dict(best)""",
    fix_safety="Display: when the old weights are to come back, and how the rate is to rise, is for the author to say.",
    not_this="""\
- The updates are too small for parameters of 16 bits: `update-rounded-away`.
- There is no gradient, or it is zero: `steps-without-gradient`, `nondifferentiable-op`.
- The new weights are used before the old ones come back (adaptation to one sample, meta-learning): no fault.
- A parameter stands at the bound that it is projected to: no fault.""",
    references=(links.OPTIM, "torch.optim.lr_scheduler.LambdaLR"),
)


def recognise(program: Program) -> Finding | None:
    """The parameters had their old bits again before the next step; or the rate was zero at every step."""
    return first_told(program, (UNDONE, _taken_back), ("rate-zero", _at_rest))


def _taken_back(program: Program, sign: Sign) -> Finding:
    name, whose = optimizer_of(program.optimizers, sign), folded(sign.parameters)
    at = innermost_user(sign.stack)
    whole = bindings.statement_at(program.sources, at)
    code = bindings.text_of(whole) if isinstance(whole, ast.Assign | ast.Expr) else code_at(program.sources, at)
    title = f"`{code}` undoes each step of {name}"
    text = f"{opening(name)} has moved {whose or 'its parameters'}, and this gives them their old numbers again before "
    text += "the next step. Nothing has read the new ones. Write the old weights back after the loop, or not at all."
    spans = of_sign(sign, "gives the parameters their old numbers again", "moves them")
    note = "The next step then goes on from where this one has ended."
    remedies = (Remedy("leave_steps", f"take `{code}` out of the loop", "display", note),)
    because = f"at {sign.count} steps the parameters had, bit by bit, the numbers from before the step again, and no "
    because += "operation had read those after it"
    return Finding(*Proof.STEPS.at(0.9), title, text, spans, remedies=remedies, because=because)


def _at_rest(program: Program, sign: Sign) -> Finding:
    name, whose = optimizer_of(program.optimizers, sign), folded(sign.parameters)
    schedule = _schedule(program, name_of(program.optimizers, sign))
    spans = (
        *span_of("cause", schedule, "multiplies the learning rate by 0"),
        *span_of("related" if schedule else "cause", sign.stack, "steps at a rate of 0"),
    )
    weight = likely(0.85)  # that nothing has moved is seen; that a later step would not is not
    title = f"the learning rate of {name} is 0 at every step"
    text = f"{opening(name)} was made with a rate of {float(sign.facts['rate']):.3g}, and each of its steps was made "
    text += f"at 0: {whose or 'its parameters'} keep their numbers. A schedule that divides in whole numbers, or a "
    text += "warm-up that is asked once an epoch, gives 0 for long."
    note = "The parameters then move from the first step on."
    remedies = (
        Remedy("raise_rate", "let the schedule begin above 0, and call its `step()` after each step", "display", note),
    )
    because = f"at each of {sign.count} steps the gradients were there and the learning rate was 0"
    return Finding(*weight, title, text, spans, remedies=remedies, because=because)


def _schedule(program: Program, name: str) -> Frame | None:
    """The one call that makes a scheduler of this optimizer."""
    if not name:
        return None
    found = []
    for file in program.sources:
        for node in bindings.every_node(program.sources, file):
            if not isinstance(node, ast.Call) or not node.args or not is_name(node.args[0], name):
                continue
            called = path_of(node.func).rpartition(".")[2]
            if called.endswith(("LR", "_schedule", "scheduler", "_warmup")):
                found.append(bindings.frame_of(program.sources, file, node))
    return only(found)
