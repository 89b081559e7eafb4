"""GD505: the requires_grad flag of a computed tensor was switched."""

from __future__ import annotations

import ast

from graphdoc.causes.base import Page
from graphdoc.evidence import Frame, SourceTexts
from graphdoc.finding import Finding, Remedy, edit_at, remedy_at, together
from graphdoc.program import bindings
from graphdoc.program.observed import Program
from graphdoc.program.proof import Proof
from graphdoc.program.spans import code_at, place, span, span_of, where
from graphdoc.source.module import each
from graphdoc.source.paths import is_read
from graphdoc.story.wording import all_told, folded, listing

PAGE = Page(
    code="GD505",
    title="The `requires_grad` flag of a computed tensor cannot be switched",
    families=("leaf-requires-grad",),
    what_happened="""\
`x.requires_grad = False`, `x.requires_grad_(False)` or `x.requires_grad = True` was written for a tensor that is the
result of an operation. Mostly the intention was to treat the result as a constant (freeze the features, stop the
gradient at a target), or to mark it for a gradient. Sometimes the tensor is taken for a parameter: a loop over the
values of a dictionary of outputs instead of over `parameters()`, or a weight that is itself computed, by a
parametrisation or weight norm.""",
    why="""\
For a leaf the flag is a choice. For a result it is a consequence: it requires gradients because one of its inputs
did, and its `grad_fn` is there already. Switching it off would leave a graph that leads nowhere, so PyTorch refuses:
*you can only change requires_grad flags of leaf variables. If you want to use a computed variable in a subgraph that
doesn't require differentiation use var_no_grad = var.detach()*.

`x.requires_grad_(True)` of such a tensor is accepted, since it changes nothing; the assignment `x.requires_grad =
True` is refused even then.""",
    example="""\
features = backbone(x)
features.requires_grad = False
loss = F.cross_entropy(head(features), y)""",
    use_instead="""\
features = backbone(x).detach()
loss = F.cross_entropy(head(features), y)""",
    fix_safety="""\
Unsafe: `x = x.detach()` does what was written, a constant from here on, and so the gradient stops here. Everything
before this line no longer learns from this loss. Other uses of the same graph are not affected, because `detach`
returns a new tensor. Where the flag is a mark that later code goes by (which copies of the weights an inner step is to
change), and an optimizer trains what lies behind, nothing is to be cut: let that code choose by name.

If the aim was to *freeze a module*, set the flag on its parameters, before the forward:
`backbone.requires_grad_(False)`. Then its activations are not kept either. If the aim was to *read the gradient* of
the result, use `x.retain_grad()`.""",
    not_this="""\
- The tensor is an integer tensor: `integer-requires-grad`.
- `.grad` of a result is None: `grad-of-non-leaf`.
- *can't optimize a non-leaf Tensor*: `non-leaf-parameter`.""",
    references=(
        ("Autograd mechanics: setting requires_grad", "notes/autograd.html#setting-requires-grad"),
        "Tensor.requires_grad_",
        "torch.Tensor.detach",
    ),
)


def recognise(program: Program) -> Finding | None:
    """The message is unambiguous; whether it was switched off decides if a detach is meant."""
    said = program.message("requires-grad-flag-nonleaf")
    return _told(program, "hint" in said.fields) if said is not None else None


def _told(program: Program, hinted: bool) -> Finding:
    frame = program.raised_at
    off = hinted and "True" not in code_at(program.sources, frame)
    name, statement = ("", None) if program.raised_in_module else _switched(program.sources, frame)
    known = program.tensor_named(name)
    made = (span("created", known.made, f"`{name}` is computed here"),) if known and known.made else ()
    label = "this module holds the result of an operation" if program.raised_in_module else ""
    label = label or "this tensor is the result of an operation"
    marks = span_of("cause", frame, label)
    aim = "To use it as a constant, take `.detach()` of it." if off else "To read its gradient, use `retain_grad()`."
    lost = _trained_through(program, name) if off else ""
    if lost:
        aim = f"With `.detach()` no gradient goes through it {lost}."
    reader = _asked_later(program.sources, statement) if lost else None
    if reader is None:
        aim += " To freeze a module, set the flag on its parameters before the forward."
    else:
        aim += f" The flag is asked for at {where(reader)}: choose there by something else, such as a set of names."
    return Finding(
        *program.weight(0.95, Proof.RAISED.confidence),
        f"`{name}` is the result of an operation: its `requires_grad` flag cannot be switched" if name else PAGE.title,
        f"A result requires gradients because its inputs do; the flag cannot be chosen for it. {aim}",
        (*marks, *made, *(program.raised_span("refused here") if not marks else ())),
        (f"it is the result of `{known.op}`, not a leaf",) if known and known.op else (),
        (_remedies(program.sources, name, statement, lost) if reader is None else ())
        if off
        else _recorded_already(program.sources, name, statement),
    )


def _trained_through(program: Program, name: str) -> str:
    """Of the parameters behind a result those that an optimizer holds, as the end of a sentence; empty for none."""
    held = [n for n in program.behind_result(name) if program.owners.holding([n])]
    whose = listing(all_told(program.optimizers, program.owners.holding(held)))
    return f"to {folded(held)}, held by {whose}" if held else ""


def _asked_later(sources: SourceTexts, statement: Frame | None) -> Frame | None:
    """Where the same function goes on to ask for such a flag: it is a mark for what is done there, and not to make a
    constant of anything."""
    asked = (n for n in each(bindings.scope_at(sources, statement), ast.Attribute) if n.attr == "requires_grad")
    later = (n for n in asked if statement is not None and is_read(n) and n.lineno > statement.line)
    return next((bindings.frame_of(sources, statement.file, n) for n in later if statement is not None), None)


def _remedies(sources: SourceTexts, name: str, statement: Frame | None, lost: str) -> tuple[Remedy, ...]:
    """Detach where the name is assigned and drop the statement, where the assignment is in sight."""
    made = bindings.assignments(sources, statement, name)[:1] if statement and name else []
    if not made or statement is None:
        return ()
    detach = edit_at("detach_assigned", made[0][0], targets=[name])
    delete = edit_at("delete_statement", statement)
    to = f" {lost}" if lost else ""
    note = f"No gradient flows back through `{name}`{to} from here on, which is what the flag was to say."
    return tuple(together([detach, delete], f"Detach `{name}` instead of switching its flag", "unsafe", note))


def _recorded_already(sources: SourceTexts, name: str, statement: Frame | None) -> tuple[Remedy, ...]:
    """The flag was to be set on what requires gradients already: leave that out, keep its `.grad`, or begin anew."""
    made = bindings.assignments(sources, statement, name)[:1] if statement and name else []
    if statement is None or not name or "True" not in code_at(sources, statement):
        return ()
    left_out = {"place": place(statement), "refused": True}
    delete = {"kind": "delete_statement", "args": left_out}
    out = []
    if not _grad_read(sources, statement, name):
        title = f"Leave the statement out: `{name}` requires gradients as it is"
        note = f"Derivatives with respect to `{name}` can be asked for, and what it was computed from still learns."
        out.append(Remedy("delete_statement", title, "safe", note, left_out))
    elif made:
        keep = edit_at("add_statement", made[0][0], statement=f"{name}.retain_grad()", bound=True)
        title = f"Keep the gradient of `{name}` instead: `{name}.retain_grad()`"
        note = f"`{name}.grad` is there after backward, and what `{name}` was computed from still learns."
        out.append(Remedy("several", title, "safe", note, {"edits": [keep, delete]}))
    if made:
        title = f"Begin a new graph at `{name}`: detach it where it is computed"
        note = f"`{name}` is a leaf then; nothing before it learns from this loss."
        out += remedy_at(made[0][0], "detach_assigned", title, "unsafe", note, targets=[name])
    return tuple(out)


def _grad_read(sources: SourceTexts, statement: Frame, name: str) -> bool:
    """Whether the file reads `.grad` of this very name."""
    reads = (n for n in each(bindings.tree(sources, statement.file), ast.Attribute) if n.attr == "grad")
    return any(bindings.text_of(n.value) == name for n in reads)


def _switched(sources: SourceTexts, frame: Frame | None) -> tuple[str, Frame | None]:
    """The name whose flag the line switches, and the whole statement."""
    for node in each(bindings.tree_at(sources, frame), ast.Assign, ast.Expr):
        if frame is not None and node.lineno == frame.line:
            inner = node.targets[0] if isinstance(node, ast.Assign) else getattr(node.value, "func", None)
            if isinstance(inner, ast.Attribute) and inner.attr.startswith("requires_grad"):
                return bindings.text_of(inner.value), bindings.frame_of(sources, frame.file, node)
    return "", None
