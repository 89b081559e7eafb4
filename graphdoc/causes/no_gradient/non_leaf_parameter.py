"""GD308: what is meant to be a parameter is the result of an operation."""

from __future__ import annotations

import ast
from typing import Any

from graphdoc.causes.base import Page
from graphdoc.evidence import Frame, SourceTexts
from graphdoc.finding import Finding, Remedy, remedy_at
from graphdoc.program import bindings
from graphdoc.program.gathered_parameters import leaf_inside
from graphdoc.program.gradient_reads import reads_gradient, rebound, updates_of_itself
from graphdoc.program.observed import Program
from graphdoc.program.proof import Proof
from graphdoc.program.spans import code_at, frames, innermost, span, where

PAGE = Page(
    code="GD308",
    title="A tensor that is to be trained is the result of an operation, not a leaf",
    what_happened="""\
A trainable tensor must be a *leaf*: made by the program directly and not computed from another tensor that requires
gradients. Here an operation comes after the flag:

- `torch.randn(3, requires_grad=True) * 0.01`: the leaf is the unscaled tensor, which nobody holds any more;
- `nn.Parameter(...).to(torch.float64)`, `.cuda()`, `.view(...)`, `.t()`: each returns a new, plain tensor when there
  is something to change;
- `w = w - lr * w.grad`: the update makes a new tensor and gives it the old name.""",
    why="""\
Gradients are stored in `.grad` of leaves only. An optimizer needs them there, so its constructor refuses other
tensors: *can't optimize a non-leaf Tensor*. Without an optimizer the failure comes later: `.grad` of the result stays
None (*'NoneType' object has no attribute 'zero_'*).

Assigned to a module it is not registered either: `self.w = nn.Parameter(...).to(device)` sets an ordinary attribute,
which `parameters()` and `state_dict()` do not list. Whether `.to(...)` makes a new tensor depends on whether there is
anything to convert: the same line can work on the CPU and fail on the GPU.""",
    example="""\
images = torch.randn(6, 1, 8, 8, requires_grad=True) * 0.01
optimizer = torch.optim.SGD([images], lr=0.1)""",
    use_instead="""\
images = (torch.randn(6, 1, 8, 8) * 0.01).requires_grad_()
optimizer = torch.optim.SGD([images], lr=0.1)""",
    fix_safety="""\
Safe where the flag moves to after the arithmetic: the tensor starts with the same values and is now the leaf. Nothing
trained the hidden one.

Where the operation is part of the model (a parameter that is always used scaled, normalised or positive), keep the
raw tensor as the leaf, give *that* to the optimizer, and apply the operation in `forward`.

An update by hand belongs under `torch.no_grad()` and in place, `w -= lr * w.grad`, so that `w` remains the same leaf.
""",
    not_this="""\
- `.grad` is read on an intermediate result that nobody wants to train: `grad-of-non-leaf`.
- The flag of a computed tensor is switched: `requires-grad-on-non-leaf`.
- *a leaf Variable that requires grad is being used in an in-place operation*: `inplace-on-leaf`.""",
    references=(
        "Tensor.is_leaf",
        "torch.nn.parameter.Parameter",
        ("torch.optim: constructing it", "optim.html#constructing-it"),
    ),
)


def recognise(program: Program) -> Finding | None:
    """An optimizer that refuses a non-leaf, or a name bound anew to the result of its own update."""
    frame = program.raised_at
    if program.message("optimizer-nonleaf"):
        return _refused(program, frame)
    name = reads_gradient(program.sources, frame) if program.met_none else ""
    if frame is None or not name:
        return None
    if not rebound(program.sources, frame, name):
        return _converted(program, frame, name)
    updates = [f for f, v in updates_of_itself(program.sources, frame, name) if f"{name}.grad" in bindings.names_in(v)]
    return _told(program, name, updates[0]) if updates else None


def _told(program: Program, name: str, update: Frame) -> Finding:
    known = program.tensor_named(name)
    title = f"`{name}` is bound to a new tensor by its own update"
    weight = program.weight(0.95, Proof.NODE.where(known is not None and not known.is_leaf))
    text = f"The right-hand side makes a new tensor and the assignment gives it the name `{name}`. The leaf that holds "
    text += "the gradient is gone; the new tensor's `.grad` is None. Update it in place under `torch.no_grad()` "
    text += "instead."
    spans = (span("cause", update, f"`{name}` becomes another tensor here"), *program.raised_span("its .grad is None"))
    fix = f"Write into `{name}` instead of assigning its name again"
    note = "The leaf stays the same object, and keeps its gradient until it is set to zero."
    remedies = remedy_at(update, "under_no_grad_update", fix, "unsafe", note, name=name)
    return Finding(*weight, title, text, spans, remedies=remedies)


def _converted(program: Program, frame: Frame, name: str) -> Finding | None:
    """The name is bound to the result of an operation on a leaf that the same expression makes."""
    known = program.tensor_named(name)
    attribute = name.rpartition(".")[2]
    places = bindings.assignments(program.sources, frame, name) or (
        bindings.assignments(program.sources, frame, f"self.{attribute}") if "." in name else []
    )
    found = [(at, value) for at, value in places if leaf_inside(value)]
    if known is None or known.is_leaf or len(places) != 1 or len(found) != 1:
        return None
    whole = found[0][0]
    title = f"`{name}` is computed from a leaf: backward stores the gradient in that leaf"
    text = f"The leaf that requires gradients is made inside the expression at {where(whole)} and has no name; "
    text += f"`{name}` is what the operation on it gave. No optimizer can train it, and its `.grad` stays None."
    spans = (
        span("cause", whole, f"`{name}` is computed from the leaf that is made here"),
        *program.raised_span("its .grad is None"),
    )
    facts = (f"it is the result of `{known.op}`, not a leaf",)
    fix = f"Let `{name}` require gradients after the operation, not before it"
    note = "The values are the same; the tensor that is used and trained is now the leaf."
    remedies = remedy_at(whole, "make_leaf", fix, "safe", note, name=name)
    return Finding(*Proof.NODE.at(0.95), title, text, spans, facts, remedies)


def _given(sources: SourceTexts, frame: Frame | None) -> list[str]:
    """The names that an optimizer is given, followed through a list or a dictionary that is written out."""
    given = bindings.names_in(bindings.argument(bindings.call_at(sources, frame), 0, "params"))
    inside: list[str] = []
    for name in given:
        for _, value in bindings.assignments(sources, frame, name)[:1] if frame else []:
            if isinstance(value, ast.List | ast.Tuple | ast.Dict):
                inside += bindings.names_in(value)
    return [*inside, *given]


def _refused(program: Program, frame: Frame | None) -> Finding:
    """The constructor's call; and the line that made the tensor, from the run or from the source."""
    given = _given(program.sources, frame)
    candidates = [t for n in given if (t := program.tensor_named(n)) and t.requires_grad and not t.is_leaf]
    candidates = candidates or [t for t in program.tensors if t.requires_grad and not t.is_leaf]
    known = candidates[0] if len(candidates) == 1 or (candidates and given) else None
    told = program.evidence.extras.get("refused")
    seen = told if isinstance(told, dict) else {}
    held = [n for n in seen.get("names") or [] if isinstance(n, str)]
    if seen and known and known.path not in held:
        known = program.tensor_named(held[0]) if held else None  # the one that was refused is another
    made = innermost(frames(seen.get("made"))) or (known.made if known else None)
    name = known.path if known else (held[0] if held else "" if seen else given[0] if given else "")
    assigned = bindings.assignments(program.sources, frame, name) if frame and name else []
    whole = assigned[0][0] if assigned else made
    what, at = _which(program.sources, frame, seen, name)
    op = str(seen.get("op") or (known.op if known else ""))
    spans = [span("cause", whole, f"{what} is the result of an operation")] if whole else []
    if frame:
        spans.append(span("cause", at or frame, "the optimizer is given a tensor that is no leaf"))
    facts = (f"it is the result of {op}, not a leaf",) if op else ()
    behind = [str(leaf.get("name")) for leaf in seen.get("leaves") or [] if isinstance(leaf, dict) and leaf.get("name")]
    if behind:
        facts = (
            *facts,
            f"computed from {', '.join(behind)}, which {'is a leaf' if len(behind) == 1 else 'are leaves'}",
        )
    title = f"Let `{name}` require gradients after the operation, not before it"
    note = "The values are the same; the tensor that the optimizer trains is now the leaf."
    remedies = remedy_at(whole if name else None, "make_leaf", title, "safe", note, name=name)
    weight = program.weight(0.95, Proof.RAISED.confidence)
    title = f"{what} is computed, not a leaf, so no optimizer can train it"
    text = "Gradients are kept in `.grad` of leaves only, and the optimizer was given the result of an operation. "
    shown = " and ".join(f"`{n}`" for n in behind[:2])
    text += f"The leaf is {shown}, before that operation." if shown else "The leaf is what that operation was given."
    places = (*spans, *(program.raised_span("refused here") if at or not frame else ()))
    return Finding(*weight, title, text, places, facts, (*remedies, *_give_the_leaf(behind, what, op)))


def _which(sources: SourceTexts, frame: Frame | None, seen: dict[str, Any], name: str) -> tuple[str, Frame | None]:
    """The tensor in words, and its place where the optimizer's list is written out."""
    position, count = seen.get("position", -1), seen.get("given", 0)
    params = bindings.argument(bindings.call_at(sources, frame), 0, "params")
    if frame and isinstance(params, ast.List | ast.Tuple) and isinstance(position, int):
        plain = not any(isinstance(e, ast.Starred | ast.Dict) for e in params.elts)
        if plain and len(params.elts) == count and 0 <= position < count:
            element = params.elts[position]
            at = bindings.frame_of(sources, frame, element)
            return f"`{' '.join(code_at(sources, at).split())}`", at
    if name:
        return f"`{name}`", None
    return (f"tensor {position + 1} of the {count} given" if count > 1 and position >= 0 else "it"), None


def _give_the_leaf(leaves: list[str], what: str, op: str) -> tuple[Remedy, ...]:
    if len(leaves) != 1:
        return ()
    note = f"{what} is computed from it again by {op.removesuffix('Backward0')}: compute it in every iteration, in the "
    note += "forward, so that the loss reaches the leaf through that operation."
    return (Remedy("give_the_leaf", f"Give the optimizer the leaf `{leaves[0]}`", "display", note),)
