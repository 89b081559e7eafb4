"""GD207: an in-place operation on a leaf that requires grad, recorded by autograd."""

from __future__ import annotations

import ast
from dataclasses import replace

from graphdoc.causes import links
from graphdoc.causes.base import Page
from graphdoc.evidence import Frame, Parameter, SourceTexts
from graphdoc.finding import Finding, Remedy, edit_at, together
from graphdoc.program import refused_writes
from graphdoc.program.bindings import names_in, tree
from graphdoc.program.learning import frozen_behind, parameter_behind, writes_on
from graphdoc.program.observed import Program
from graphdoc.program.parameter_paths import within
from graphdoc.program.proof import Proof
from graphdoc.program.spans import loop_of, place, span, where
from graphdoc.program.writers import Target, is_statement, uses_gradient
from graphdoc.remedies.in_place_write import SAME, viewed_by, without_flag
from graphdoc.source.module import each
from graphdoc.source.paths import covers
from graphdoc.story.message_alone import from_message
from graphdoc.story.overwrite import told_written_back

MESSAGES = ("leaf-inplace", "leaf-view-inplace", "function-dirty-leaf")

PAGE = Page(
    code="GD207",
    title="A parameter (a leaf that requires grad) is changed in place while autograd records",
    families=("inplace-view", "custom-function", "optimizer"),
    what_happened="""\
A tensor that was created with `requires_grad=True`, usually a parameter, is written in place: `w -= lr * w.grad`,
`weight[0] = 0`, `p.normal_()`, `x /= 255`, an activation module with `inplace=True` applied to a parameter. The line in
the traceback is the write itself. "A view of a leaf" is the same through a slice or a reshaped view: `weight[0] = 0`
writes into `weight`.""",
    why="""\
A leaf is where gradients arrive: `backward()` puts them into its `.grad`, and the optimizer holds this tensor itself.
An in-place operation that is recorded would make the tensor the *result* of an operation. It would stop being a leaf,
and the value that the gradient is taken with respect to would exist nowhere any more. So PyTorch refuses before
anything is written, whether or not backward would have needed the old value.

Nothing needs recording when the write is an update, an initialisation or a constraint. Under `torch.no_grad()` the same
line is allowed: the numbers change, the tensor stays a leaf, and its version goes up. That is how every optimizer does
it.

`w = w - lr * w.grad` is not refused and is no substitute. It binds the name to a new tensor, which is not a leaf: after
the next backward its `.grad` is `None`.""",
    example="""\
loss = model_output(w).pow(2).mean()
loss.backward()
w -= 0.1 * w.grad
w.grad = None""",
    use_instead="""\
loss = model_output(w).pow(2).mean()
loss.backward()
with torch.no_grad():
    w -= 0.1 * w.grad
w.grad = None""",
    fix_safety="""\
What the write is for decides, so the choice is unsafe in general.

- **An update, initialisation or constraint:** put it under `torch.no_grad()`, or use `torch.nn.init`. No gradient
  should flow through it. Do it between `step()` and the next forward: a write between forward and backward raises the
  version error (`parameter-overwritten`).
- **A part of the model** (preprocessing an input whose gradient is wanted, masking a weight, an activation): write out
  of place, `y = x / 255`, `w = self.weight.clone(); w[0] = 0`, `inplace=False`. This one is safe: the values are the
  same, and the gradient reaches the leaf through the operation. Under `torch.no_grad()` it would be lost.
- **Filling a tensor that is to be trained:** fill it first, then call `requires_grad_()`.

`.data` gets round the check as well, and round the version counter with it. Prefer `no_grad`.""",
    not_this="""\
- The error comes from `backward()`, with two version numbers: `parameter-overwritten`,
  `optimizer-step-before-backward`.
- The message speaks of a view that was made under `no_grad` or by a function with several outputs: `inplace-on-view`.
- "functions with out=... arguments don't support automatic differentiation": the result is to be written into an
  existing tensor; assign the result instead.""",
    references=(links.IN_PLACE, "torch.no_grad", links.GRAD_MODES),
)


_NO_GRAD = "under_no_grad_update"
_LEARNS = "what is written was computed from parameters: whether these are to learn through it, no run tells"
_STAYS = "each time it runs it then changes the parameter for good: whether that is meant, no run tells"


def recognise(program: Program) -> Finding | None:
    """The message belongs to this cause alone; the run knows what is written, and by what."""
    write = refused_writes.refused_write(program, *MESSAGES)
    if write is not None and refused_writes.is_written_back(program, write):
        return told_written_back(write)
    return _told(program, write) if write is not None else _from_text(program)


def _told(program: Program, write: refused_writes.RefusedWrite) -> Finding:
    frame, target = write.frame, write.target
    what = f"`{target.path}`" if target.path else "a tensor"
    part = target.sliced and bool(_meant(program.parameters, target.path))
    through = write.message == "leaf-view-inplace" and not part
    leaf = "a view of a leaf that requires grad" if through else "a leaf that requires grad"
    if through and target.sliced:  # the slice alone makes a view of it
        leaf = "a leaf that requires grad (or a view of one)"
    causes = [span("cause", frame, f"writes into {what}, {leaf}")]
    causes += [span("cause", b, "built to write in place") for b in write.built[:2]]
    training = bool(program.optimizers or program.evidence.events)  # else nothing in sight learns through anything
    learns = training and refused_writes.learns_through(program.sources, frame, target.path, program.tensors)
    filled = without_flag(program, write)
    own = refused_writes.is_update_of_its_own(program.sources, frame, target.path)
    own = own or refused_writes.is_for_its_effect(program.sources, frame, target.path)
    update = not learns and not filled and (own or _is_update(program.sources, program.parameters, frame, target))
    advice = (
        "The write is an update of the tensor: put it under torch.no_grad()."
        if update
        else "The write is a part of the model: compute a new tensor."
    )
    remedies = _remedies(program.sources, write, update, learns or bool(filled), training, own)
    if learns and any(map(_is_held, _meant(program.parameters, viewed_by(program.sources, frame, target.path)))):
        # What a module holds as a parameter takes no computed tensor in its place: a trial tells whether it is that.
        remedies = tuple(replace(r, open=_LEARNS) if r.kind == _NO_GRAD else r for r in remedies)
    if update and _may_be_a_part(program, frame):
        remedies = tuple(replace(r, safety="unsafe", open=_STAYS) if r.kind == _NO_GRAD else r for r in remedies)
    weight = Proof.RAISED.at(0.96)
    title = (
        f"{what} is {leaf.replace(' of one', '')}, and {'a part of it ' if part else ''}is changed in place"
        if target.path
        else PAGE.title
    )
    text = f"{where(frame)} writes into {what}, {leaf}, while autograd records. PyTorch refuses it: the leaf would "
    text += f"become a result, and get no `.grad`. {advice}"
    spans = (*causes, span("mutated", frame, f"{what} is written here"))
    return Finding(*weight, title, text, spans, _facts(program.parameters, target, update), (*filled, *remedies))


def _may_be_a_part(program: Program, frame: Frame) -> bool:
    """Whether what looks like an update may be a part of the model: written while a module was computing its output, or
    reckoned with something that is no gradient (``x /= 255``, ``x.sub_(mean)``) in the rounds of a loop, for which an
    optimizer is there already."""
    stack = program.raised.stack if program.raised is not None else []
    if program.raised_in_forward:
        return True
    around = [f for f in stack if f.user and f is not frame and loop_of(program.sources, f) is not None]
    return bool(program.optimizers and around) and refused_writes.is_reckoned(program.sources, frame)


def _is_held(p: Parameter) -> bool:
    """Whether an optimizer or a module has it; what neither has is a tensor of the program's own."""
    return bool(p.owners) or "." in p.name


def _meant(parameters: list[Parameter], path: str) -> list[Parameter]:
    """The leaves that a path names themselves, which have a name of their own, and no views of them."""
    found = within(path, (p.name for p in parameters))
    return [p for p in parameters if found.get(p.name) == "" and p.is_leaf and not p.buffer]


def _is_update(sources: SourceTexts, parameters: list[Parameter], frame: Frame, target: Target) -> bool:
    """Whether the statement is there for what it writes: an update or an initialisation, no part of a forward."""
    filled = frozen_behind(sources, frame, target.path) or parameter_behind(sources, frame, target.path)
    if uses_gradient(sources, frame) or filled:
        return True
    if (
        not target.whole
        or not is_statement(sources, frame)
        or refused_writes.goes_on_with_it(sources, frame, target.path)
    ):
        return False
    stepped = any(p.owners for p in parameters)
    trained = any(_is_held(p) or not stepped for p in _meant(parameters, target.path))
    named = frame.function.rpartition(".")[2] in ("__init__", "reset_parameters", "init_weights")
    return trained or named or _is_looped(sources, frame, target.path)


def _is_looped(sources: SourceTexts, frame: Frame, path: str) -> bool:
    """Whether the written name is the variable of a loop around the write, in which nothing reads it afterwards."""
    loops = list(each(tree(sources, frame.file), ast.For))
    around = [n for n in loops if covers(n, frame.line) and path in names_in(n.target)]
    if not around:
        return False
    later = (n for n in each(max(around, key=lambda n: n.lineno), ast.Name) if n.id == path)
    return not any(n.lineno > (frame.end_line or frame.line) for n in later)


def _facts(parameters: list[Parameter], target: Target, update: bool) -> tuple[str, ...]:
    """What is written, where the path leads to one parameter alone: ``layer.weight`` may be that of any layer."""
    found = _meant(parameters, target.path)
    held = [p for p in found if update or _is_held(p)]
    if len(found) != 1 or not held:
        return ()
    word = "a parameter" if _is_held(held[0]) else "a leaf"
    return (f"{held[0].name}, {word} of shape {held[0].shape}",)


def _remedies(
    sources: SourceTexts, write: refused_writes.RefusedWrite, update: bool, learns: bool, training: bool, own: bool
) -> tuple[Remedy, ...]:
    frame, target, built = write.frame, write.target, write.built
    at = place(frame)
    kept = frozen_behind(sources, frame, target.path) or parameter_behind(sources, frame, target.path)
    trained = training and not kept
    last = writes_on(sources, frame, target.path)
    title = f"put the {f'writes from {where(frame)} to {where(last)}' if last else f'write at {where(frame)}'} under "
    title += "torch.no_grad()"
    effect = "The write changes the numbers and is not recorded; the tensor stays a leaf"
    effect += " and gets its gradient." if own else " and is trained." if trained and update else "."
    args = {"place": at, **({"last": place(last)} if last else {})}
    no_grad = Remedy(_NO_GRAD, title, "safe" if update else "unsafe", effect, args)
    anew = Remedy(
        "out_of_place",
        f"compute a new tensor at {where(frame)}",
        "unsafe",
        "The result is a new tensor with a graph that leads to the leaf; the leaf keeps its numbers.",
        {"place": at, **({"container": True} if target.path.endswith("]") and not target.sliced else {})},
    )
    flags = [edit_at("out_of_place", b) for b in built]
    lines = ", ".join(where(b) for b in built[:3])
    out = together(flags, f"do not write in place, at {lines}", "safe", SAME)
    if (handed := write.handed) is not None:
        out.append(_clone_of_callers(handed, target.path))
    elif target.path and not update and not target.whole:  # what a bare statement writes into a clone is lost
        operand = {"place": at, "operands": [target.path]}
        note = "The write goes into the clone, whose graph leads to the leaf; the leaf keeps its numbers."
        out.append(Remedy("clone_expression", f"use a clone of {target.path} at {where(frame)}", "safe", note, operand))
    if update:
        return (no_grad, anew, *out)
    if handed is not None:  # a tensor of the function's own is nothing to the caller
        return (*out, no_grad)
    # Not recorded, a value that something is to learn through would be lost, and no trial could tell.
    ways = (*out[:1], anew, *out[1:])
    if learns:
        return (*ways, no_grad) if "." in viewed_by(sources, frame, target.path) else ways
    # An attribute that is a parameter takes no other tensor: bound anew, it would be refused.
    return (no_grad, *ways) if "." in target.path and is_statement(sources, frame) else (*ways, no_grad)


def _clone_of_callers(handed: refused_writes.Handed, path: str) -> Remedy:
    """The function is called for what it writes: its caller hands it a clone, and goes on with that."""
    args = {"place": place(handed.statement), "statement": f"{handed.name} = {handed.name}.clone()", "before": True}
    note = f"The write into `{path}` is meant for the caller: it goes into a clone there, which has a graph that leads "
    title = f"clone `{handed.name}` before {where(handed.statement)} has it written"
    return Remedy("add_statement", title, "unsafe", f"{note}to the leaf; the leaf keeps its numbers.", args)


# The message belongs to this cause alone, and its line is the write.
_from_text = from_message("inplace-on-leaf", PAGE.title, *MESSAGES, "leaf-moved-into-graph")
