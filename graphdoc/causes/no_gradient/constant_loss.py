"""GD310: on this path through the program the loss is built from constants and never touches the network."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import Any

from graphdoc.causes.base import Page
from graphdoc.evidence import Cut, Frame, SourceTexts
from graphdoc.finding import Finding, Remedy, distinct
from graphdoc.model import Confidence, Span
from graphdoc.program import bindings
from graphdoc.program.observed import Program
from graphdoc.program.proof import Proof
from graphdoc.program.spans import innermost, place, span, span_of, where
from graphdoc.program.values_taken_out import called_on, plain_number
from graphdoc.source.expressions import is_number
from graphdoc.source.module import each, is_method_call, walked
from graphdoc.source.paths import covers, is_name, key, plain_names, targets_of
from graphdoc.source.scopes import function_of
from graphdoc.story.missing_graph import facts_of, find_cut, loss_made, recording_was_on, story, weigh, without_graph

PAGE = Page(
    code="GD310",
    title="On this path the loss is a constant: no term of it came from the network",
    families=("no-graph", "ddp", "legacy"),
    what_happened="""\
The loss starts as a constant (`torch.zeros(())`, `torch.tensor(0.0)`, `0`) and terms are added to it under a
condition or in a loop. For this batch no term was added: every sample was skipped, no box matched, the mask was
empty, the weight of the term is zero in this phase. What arrives at `backward()` is the constant itself. In training
this comes after minutes or days, with the first batch that is empty in that sense; in distributed training on one
rank only, while the others wait for it in their all-reduce.""",
    why="""\
A constant depends on no parameter, so there is nothing to differentiate: *element 0 of tensors does not require grad
and does not have a grad_fn*. If the accumulator is a Python number, it is *'int' object has no attribute 'backward'*,
since `sum([])` and an untouched `loss = 0` are not tensors.

The same program with one more sample in the batch is right: the sum of a constant and a tensor with a graph has a
graph.""",
    example="""\
loss = torch.zeros(())
for image, boxes in zip(features, targets):
    if len(boxes) == 0:
        continue
    loss = loss + F.l1_loss(head(image), boxes.mean(0))
loss.backward()""",
    use_instead="""\
loss = features.sum() * 0.0  # zero, and connected to the network
for image, boxes in zip(features, targets):
    if len(boxes) == 0:
        continue
    loss = loss + F.l1_loss(head(image), boxes.mean(0))
loss.backward()""",
    fix_safety="""\
Unsafe: either way this batch changes nothing, which is the author's to decide. Two fixes, by situation:

- **One process.** Skip the update: `if loss.requires_grad: loss.backward(); optimizer.step()`. With momentum or
  weight decay this is not quite the same as a step with zero gradients: a skipped step moves nothing.
- **Distributed.** Every rank has to run its backward, or the others hang. Build the zero from the network's output
  (`output.sum() * 0.0`), so that the graph and the hooks of `DistributedDataParallel` are there and the gradients are
  zero. `0 * inf` and `0 * nan` are nan; use `torch.nan_to_num` or a mask if the output may be infinite.

Do not write `torch.zeros((), requires_grad=True)`: this removes the message in every case, including those in which a
real term was lost, and under `DistributedDataParallel` the ranks hang.""",
    not_this="""\
- Terms were added, and each of them had lost its graph: `cut-by-conversion`, `cut-by-detach`, `nondifferentiable-op`.
- Recording was off: `cut-by-no-grad`. All parameters are frozen: `frozen-parameters`.
- `'float' object has no attribute 'backward'` after `.item()`: `cut-by-conversion`.""",
    references=(
        ("DistributedDataParallel: internal design", "notes/ddp.html#internal-design"),
        "torch.Tensor.backward",
    ),
)


def recognise(program: Program) -> Finding | None:
    """A loss that no operation with a graph has touched, though parameters are trainable and recording was on."""
    if program.field("type", "float-has-no-backward") in ("int", "float"):
        return _number(program)
    if program.evidence.from_text or not without_graph(program.raised):
        return None
    if _written_number(program.sources, program.evidence.extras) is not None:
        return _finding(program, 0.97, Proof.GRAPH_END.confidence)
    cut = find_cut(program, "constant")
    if cut is not None:
        return _from_cut(program, cut)
    return _built(program)


def _number(program: Program) -> Finding | None:
    """A Python number that starts as one: an int, or a float that the program has written."""
    if (
        program.field("type", "float-has-no-backward") == "float"
        and not plain_number(program.sources, *called_on(program)).starts
    ):
        return None
    return _finding(program, *program.weight(0.85, "likely"))


def _built(program: Program) -> Finding | None:
    """A tensor that was made of constants: the last operation of it was seen, or the assignment that it starts from.

    None where no parameter could learn, recording was off, or a cut is known that would explain the missing graph.
    """
    trainable = any(p.requires_grad and not p.buffer for p in program.parameters)
    if not trainable or program.cuts or not recording_was_on(program.evidence.extras):
        return None
    if loss_made(program.evidence.extras)[0]:
        return _finding(program, 0.8, "likely")
    return _finding(program, 0.5, "possible") if _assigned(program) else None


def _written_number(sources: SourceTexts, extras: dict[str, Any]) -> ast.Call | None:
    """The call that has made the loss, where that is ``torch.tensor`` of a number that is written there."""
    op, stack = loss_made(extras)
    call = bindings.call_at(sources, innermost(stack)) if op == "tensor" else None
    given = bindings.argument(call, 0, "data")
    return call if given is not None and is_number(given) else None


def _from_cut(program: Program, cut: Cut) -> Finding:
    """The second look has seen the loss made from constants, or from what it knows nothing of."""
    made = "the loss is made from constants here" if cut.certain else "what the loss is made from comes in here"
    title = PAGE.title if cut.certain else "Nothing with a graph was seen to go into this loss"
    text = _TEXT if cut.certain else _NOT_SEEN
    spans = _spans(program) if _assigned(program) else story(program, cut, made)
    facts = facts_of(program.cuts, cut)
    return Finding(*weigh(program, cut), title, text, spans, facts, _remedies(program.sources, program.evidence.extras))


_TEXT = (
    "The loss was made from constants alone: on this path through the program no term that depends on the network was "
    "added to it. It has no graph, and there is nothing to differentiate."
)

_NOT_SEEN = (
    "The loss has no graph, and nothing that has one was seen to go into it: what it is made from are constants of the "
    "program, or values that came in past autograd, as from a file, a pickle, compiled code or a class of tensors."
)


def _finding(program: Program, strength: float, confidence: Confidence) -> Finding:
    op, _ = loss_made(program.evidence.extras)
    facts = (f"the last operation was {op}; nothing with a graph went into it",) if op else ()
    remedies = _remedies(program.sources, program.evidence.extras)
    return Finding(strength, confidence, PAGE.title, _TEXT, _spans(program), facts, remedies)


def _spans(program: Program) -> tuple[Span, ...]:
    made = span_of("cause", loss_made(program.evidence.extras)[1], "the loss is made here, from constants")
    return (*_assigned(program), *made, *program.raised_span("the loss that arrives here is a constant"))


def _remedies(sources: SourceTexts, extras: dict[str, Any]) -> tuple[Remedy, ...]:
    """A zero built from what the function was given and adds terms of; the run tells which argument has a graph."""
    out: list[Remedy] = []
    for at, wanted in _starts(sources, extras):
        for start, value in _set_by(sources, at, wanted):
            if _is_constant(sources, start, value) and not isinstance(value, ast.Constant):
                out += _of_other_branch(sources, start, value, wanted)
                out += _connected(sources, start, value, f"start `{wanted}` as")
    made, call = innermost(loss_made(extras)[1]), _written_number(sources, extras)
    if made is not None and call is not None and _is_constant(sources, made, call):
        out += _connected(sources, made, call, "give back")
    return tuple(r for i, r in enumerate(out) if r not in out[:i])[:2]


_NOTE = "Where no term is added the gradients are zero, and the optimizer steps with them."


def _of_other_branch(sources: SourceTexts, start: Frame, value: ast.expr, wanted: str) -> list[Remedy]:
    """Zero times the expression by which the other branch of an ``if`` binds the same name; none where that reads what
    only this branch has."""
    around = [n for n in each(bindings.tree(sources, start.file), ast.If) if covers(n, start.line)]
    for branch in reversed(around):
        here, other = branch.body, branch.orelse
        if not any(covers(s, start.line) for s in here):
            here, other = other, here
        bound = [s for s in other if isinstance(s, ast.Assign) and key(s.targets[0]) == wanted]
        if len(bound) != 1 or not any(covers(s, start.line) for s in here):
            continue
        made = bound[0].value
        before = {key(t) for s in other[: other.index(bound[0])] for t in targets_of(s)}
        if before & plain_names(made) or not isinstance(made, ast.Call):
            return []
        text = ast.unparse(made)
        args = {"place": place(bindings.frame_of(sources, start.file, value)), "pairs": [["{_}", f"{text} * 0.0"]]}
        return [Remedy("rewrite", f"start `{wanted}` as `{text} * 0.0`, at {where(start)}", "unsafe", _NOTE, args)]
    return []


def _is_no_tensor(function: ast.AST, name: str) -> bool:
    """Whether a function takes an argument apart: unpacks it, or reads an entry of it by a word."""
    for n in walked(function):
        if isinstance(n, ast.Subscript) and isinstance(n.slice, ast.Constant) and isinstance(n.slice.value, str):
            apart = key(n.value) == name
        elif isinstance(n, ast.Assign) and isinstance(n.targets[0], ast.Tuple | ast.List):
            apart = is_name(n.value, name)
        else:
            continue
        if apart:
            return True
    return False


def _connected(sources: SourceTexts, start: Frame, value: ast.expr, title: str) -> list[Remedy]:
    """A zero of one of the arguments that the function around reads, in the place of a constant."""
    function = bindings.function_at(sources, start)
    if function is None:
        return []
    given = [a.arg for a in (*function.args.posonlyargs, *function.args.args) if a.arg not in ("self", "cls")]
    read = plain_names(function, ast.Load)
    return [
        Remedy(
            "rewrite",
            f"{title} `{name}.sum() * 0.0`, at {where(start)}",
            "unsafe",
            _NOTE,
            {"place": place(bindings.frame_of(sources, start.file, value)), "pairs": [["{_}", f"{name}.sum() * 0.0"]]},
        )
        for name in [n for n in given if n in read and not _is_no_tensor(function, n)][:2]
    ]


def _starts(sources: SourceTexts, extras: dict[str, Any]) -> list[tuple[Frame, str]]:
    """Under which name, and in which frame, the loss was last known where it was made."""
    made = innermost(loss_made(extras)[1])
    lines = [n for n in each(bindings.tree_at(sources, made), ast.stmt) if made and n.lineno == made.line]
    return [(made, n) for n in [n for s in lines for n in bindings.names_in(s)][:12]] if made else []


def _assigned(program: Program) -> tuple[Span, ...]:
    """The constants that the loss starts from: assignments of a zero in the functions that made it."""
    found: list[Span] = []
    counts: list[Span] = []
    others: list[Span] = []
    frame, name = called_on(program)
    made = innermost(loss_made(program.evidence.extras)[1])
    starts = _starts(program.sources, program.evidence.extras)
    if frame and name:
        starts.append((frame, name))
    for at, wanted in starts:
        for start, value in bindings.assignments(program.sources, at, wanted):
            # A counter starts as a number, too: it is told only where no tensor does.
            if _is_constant(program.sources, start, value) and not _adds(program.sources, start):
                told = counts if isinstance(value, ast.Constant) else found
                told.append(span("cause", start, f"`{wanted}` starts as a constant"))
            elif at is frame and not made:
                others.append(span("cause", start, f"`{wanted}` gets its value here"))
    return distinct(found or counts or others)[:2]


def _set_by(sources: SourceTexts, at: Frame, name: str) -> list[tuple[Frame, ast.expr]]:
    """The assignments to a name up to a line and on it: where nothing was added, the start itself made the loss."""
    function = bindings.function_at(sources, at)
    last = function is not None and at.line >= (function.end_lineno or at.line)
    return bindings.assignments(sources, at if last else replace(at, line=at.line + 1), name)


def _adds(sources: SourceTexts, at: Frame) -> bool:
    """Whether the statement adds to what it assigns (``count += 1``)."""
    return any(n.lineno == at.line for n in each(bindings.tree(sources, at.file), ast.AugAssign))


def _is_constant(sources: SourceTexts, at: Frame, value: ast.expr) -> bool:
    if isinstance(value, ast.BinOp):
        return _is_constant(sources, at, value.left) and _is_constant(sources, at, value.right)
    if not isinstance(value, ast.Call):
        return isinstance(value, ast.Constant) and isinstance(value.value, int | float)
    made = function_of(bindings.tree_at(sources, at), value)
    zero = made == "torch.tensor" and bindings.text_of(bindings.argument(value, 0, "data")).startswith("0")
    begins = zero or made in ("torch.zeros", "torch.zeros_like") or is_method_call(value, "new_zeros")
    return begins or (is_method_call(value) and _is_constant(sources, at, value.func.value))
