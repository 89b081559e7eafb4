"""Where a loss loses its graph: the ``detach``, the block or the mode that ended it, and whether that was meant."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from graphdoc.evidence import Cut, Evidence, Folded, Frame, Raised, Sign, SourceTexts, optimizer_with
from graphdoc.program import bindings
from graphdoc.program.bindings import (
    assignments,
    entered,
    expression_at,
    frame_of,
    source_at,
    statement_at,
    tree,
    tree_at,
)
from graphdoc.program.carried_names import bound_names, uses_in_loss
from graphdoc.program.observed import Program
from graphdoc.program.optimizer_places import made
from graphdoc.program.parameter_paths import within
from graphdoc.program.reuse import above
from graphdoc.program.spans import Reached, frames, in_function, innermost, innermost_user, reached, user_line
from graphdoc.program.written_out import place_of, written_out
from graphdoc.source.module import Function, each, given_to, has, is_method_call, walked
from graphdoc.source.paths import (
    bare_call,
    called,
    covers,
    detached,
    is_constant,
    is_name,
    key,
    plain_names,
    sole_target,
    targets_of,
)
from graphdoc.source.scopes import own_nodes

# Where tensors were made in inference mode: the decorator or the block, and the line that took them out of it.

MODE = "inference_mode"


@dataclass(frozen=True)
class Origin:
    """``switch`` is the decorator or the expression of the ``with``.

    ``taken`` is the expression whose value left inference mode, None where it is not known; ``name`` what it is bound
    to; ``sure``: the journal and the source say the same.
    """

    switch: Frame | None
    taken: Frame | None
    name: str
    sure: bool


def origin_of(program: Program) -> Origin:
    """What is known of where the inference tensors near the failure came from."""
    switches = program.evidence.extras.get("switches")
    journal = frames(switches.get(MODE)) if isinstance(switches, dict) else []
    written = [found for file in program.sources for found in entered(program.sources, file, MODE)]
    near = [t for t in reversed(list(reached(program.evidence.extras))) if t.inference]
    # What the failing calls themselves read or write says most.
    near.sort(key=lambda t: -_read_by_call(program.evidence, t))
    for tensor in near:
        name = tensor.path if _is_the_one(program, tensor, near) else ""
        for frame, value in _assigned(program.evidence, tensor):
            seen = any(f.on_lines_of(frame) for f in journal)
            inside = next((at for at, node in written if _governs(node, at, frame)), None)
            if inside is not None:
                return Origin(inside, None, name, True)
            names = {n.attr for n in each(value, ast.Attribute)} | plain_names(value)
            made = next((at for at, node in written if isinstance(node, Function) and node.name in names), None)
            if made is not None or seen:
                taken = frame_of(program.sources, frame, value)
                return Origin(made or _journalled(journal, written), taken, name, True)
    switch = _journalled(journal, written) or next((at for at, _ in written if len(written) == 1), None)
    return Origin(switch, None, "", False)


def _governs(node: ast.stmt, at: Frame, frame: Frame) -> bool:
    """Whether a place stands in the block of a ``with``."""
    return not isinstance(node, Function) and at.file == frame.file and covers(node, frame.line)


def _assigned(run: Evidence, tensor: Reached) -> list[tuple[Frame, ast.expr]]:
    frame = _frame_of(run.raised, tensor)
    return assignments(run.sources, frame, tensor.path.partition("[")[0]) if frame is not None else []


def _frame_of(raised: Raised | None, tensor: Reached) -> Frame | None:
    """Where the function that reaches a tensor stood when the exception was raised."""
    stack = raised.stack if raised else []
    return next((f for f in reversed(stack) if f.user and f.function == tensor.function), None)


def _read_by_call(run: Evidence, tensor: Reached) -> int:
    """Whether the statement with which the tensor's function led to the failure names what holds it (1), or it (2)."""
    frame = _frame_of(run.raised, tensor)
    here = [n for n in each(tree_at(run.sources, frame), ast.expr) if frame and n.lineno == frame.line]
    name = tensor.path.partition("[")[0].partition(".")[0]
    return 2 if any(key(n) == tensor.path for n in here) else int(any(is_name(n, name) for n in here))


def _is_the_one(program: Program, tensor: Reached, near: list[Reached]) -> bool:
    """Whether it is this one of those that the failing statement reaches by the same name."""
    read = _read_by_call(program.evidence, tensor)
    return read > 1 or sum(_read_by_call(program.evidence, t) == read for t in near) == 1


def _journalled(journal: list[Frame], written: list[bindings.Entered]) -> Frame | None:
    """The last switch that was thrown, as it stands in the source."""
    at = innermost_user(journal)
    return next((w for w, _ in written if at is not None and (w.file, w.line) == (at.file, at.line)), at)


# A block that keeps operations from being recorded and is still under way where a program fails.

MODES = ("inference_mode", "no_grad")


def mode_under_way(sources: SourceTexts, extras: dict[str, Any], raised: Raised | None) -> tuple[str, Frame] | None:
    """The mode and the line of the ``with`` that switched it on last; None where no such block is around the failure.

    The latest switch of each mode is known by its stack. It is that of a block around the failure where all its callers
    are those of the failing line, and the ``with`` in its own function is around the line there.
    """
    told = extras.get("switches")
    switches = told if isinstance(told, dict) else {}
    failed = [f for f in raised.stack if f.user] if raised is not None else []
    for mode in MODES:
        stack = [f for f in frames(switches.get(mode)) if f.user]
        # A traceback begins where the exception was caught.
        while len(stack) > 1 and failed and stack[0].extent != failed[0].extent:
            del stack[0]
        if not stack or len(failed) < len(stack):
            continue
        callers = all(a.extent == b.extent for a, b in zip(stack[:-1], failed, strict=False))
        at, own = failed[len(stack) - 1], stack[-1]
        if callers and at.in_function_of(own) and _is_around(sources, own, at):
            return mode, own
    return None


def _is_around(sources: SourceTexts, switch: Frame, at: Frame) -> bool:
    """Whether the ``with`` at one line is around another one."""
    owner, inner = statement_at(sources, switch), statement_at(sources, at)
    around = source_at(sources, at).node_ancestors(inner) if inner is not None else ()
    return isinstance(owner, ast.With | ast.AsyncWith) and owner in around


# The statements that hide a missing graph: ``loss.requires_grad_()`` and its kin.

_WRAPPERS = {"Variable", "Parameter", "tensor", "as_tensor"}


def cover_ups(sources: SourceTexts, as_if: Sign | None) -> list[Frame]:
    """The statements that make the loss of the backward call of ``evidence.as_if`` a tensor that requires gradients."""
    frame = user_line(as_if)
    scope, call = bindings.scope_at(sources, frame), bindings.call_at(sources, frame)
    if frame is None or not is_method_call(call):
        return []
    name = bindings.text_of(call.func.value)
    found = [n for n in own_nodes(scope) if isinstance(n, ast.stmt) and _hides(n, name)]
    return [bindings.frame_of(sources, frame.file, n) for n in found if n.lineno < frame.line]


def _hides(node: ast.stmt, name: str) -> bool:
    target, call = bindings.text_of(sole_target(node)), getattr(node, "value", None)
    if target == f"{name}.requires_grad":
        return is_constant(call, True)
    if not isinstance(call, ast.Call) or (target != name and bare_call(node) is None):
        return False
    flagged = bindings.text_of(call) in (f"{name}.requires_grad_()", f"{name}.requires_grad_(True)")
    wrapped = [bindings.text_of(a) for a in call.args[:1] if target and called(call) in _WRAPPERS]
    return flagged or wrapped == [name]


# Other places at which the loss of a mended cut loses its graph: mended with it, or left as they are.

_LEFT = ("detach", "missing-create-graph")
"""Of a target under ``no_grad`` and of a value that became a number nobody asks; these stand where they do by a word of
the program, and whether that was meant for this loss no run tells."""


def handed_on_together(program: Program, cut: Cut) -> list[Cut]:
    """The other cuts of the same operation that stand beside this one as elements of one tuple.

    ``return mean.detach(), spread.detach()`` takes nothing apart that was meant apart: one purpose (the values of a
    function that is used elsewhere, too) stands behind them all. Only those of what an optimizer is to train.
    """
    at = innermost(cut.stack)
    found = ((c, innermost(c.stack)) for c in program.cuts if c is not cut and at is not None and cut.certain)
    beside = [c for c, f in found if f is not None and at is not None and _elements_of_one(program.sources, at, f)]
    return [c for c in beside if (c.reason, c.op) == (cut.reason, cut.op) and program.owners.holding(c.behind)]


def copied_beside(program: Program, cut: Cut) -> list[Cut]:
    """The other places at which this loss takes values of the same parameters by the same operation out of their
    tensors: where one is mended, all of them are to be. Values of others (a baseline) may be meant as numbers."""
    at = innermost(cut.stack)
    alike = (c for c in program.cuts if at and c.certain and (c.reason, c.op) == (cut.reason, cut.op) and cut.certain)
    same = (c for c in alike if program.owners.holding(c.behind) and set(c.behind) == set(cut.behind))
    found: dict[object, Cut] = {}
    for c in same:
        place = innermost(c.stack)
        if place is not None and at is not None and place.extent != at.extent:
            found.setdefault(place.extent, c)
    return list(found.values())


def left_cut(program: Program, mended: Sequence[Cut]) -> list[Cut]:
    """The cuts that a loss keeps where these are mended, of what its own optimizer is to train."""
    spots = {f.extent for c in mended if (f := innermost(c.stack)) is not None}
    trained, holding = program.trained, program.owners.holding
    left = [c for c in program.cuts if c.certain and c.reason in _LEFT and not any(c is m for m in mended)]
    left = [c for c in left if (trained & set(c.behind) if trained else holding(c.behind))]
    return [c for c in left if (f := innermost(c.stack)) is not None and f.extent not in spots]


def _elements_of_one(sources: SourceTexts, one: Frame, other: Frame) -> bool:
    apart = one.file == other.file and one.extent != other.extent
    for node in each(tree(sources, one.file), ast.Tuple) if apart else ():
        first, second = (next((e for e in node.elts if _spans(e, f)), None) for f in (one, other))
        if first is not None and second is not None and first is not second:
            return True
    return False


# Whether a program detaches a term of its loss only now and then: while it warms up, or as an option says.


def cut_by_choice(program: Program, cut: Cut) -> bool:
    """Whether a condition decides that a term loses its graph by this cut, and not whether the term is there at all.
    One that asks if the value is a tensor decides nothing: nothing else can be cut."""
    sources, sign = program.sources, program.evidence.as_if
    cutting = place_of(sources, cut.stack)
    if cutting is None or sign is None or sign.kind != "constant-term":
        return False
    adding, scope = place_of(sources, sign.other), bindings.scope_at(sources, cutting)
    call = bindings.call_at(sources, cutting)
    value = detached(written_out(sources, cutting, call, values=False)) if call is not None else None
    choices = [n for n in each(scope, ast.If, ast.IfExp) if _spans(n, cutting) and not _asks_for_a_tensor(n, cutting)]
    apart = [n for n in choices if adding is None or adding.file != cutting.file or not _spans(n, adding)]
    return any(isinstance(n, ast.IfExp) or _has_another_way(n, cutting, key(value) if value else "") for n in apart)


def _asks_for_a_tensor(choice: ast.If | ast.IfExp, cutting: Frame) -> bool:
    """``isinstance(x, torch.Tensor)`` or ``torch.is_tensor(x)``, where ``x`` is what is cut."""
    match choice.test:
        case ast.Call(args=[tested, *_]) as test if called(test) in ("isinstance", "is_tensor"):
            return key(tested) in {key(n.value) for n in each(choice, ast.Attribute) if _spans(n, cutting)}
    return False


def _has_another_way(choice: ast.If, cutting: Frame, value: str) -> bool:
    """Whether the value that is cut here goes on with its graph where the condition says otherwise: the other branch
    gives the same name, the name itself is replaced by what is left of it, or what follows is left out here."""
    one, other = choice.body, choice.orelse
    if not any(_spans(s, cutting) for s in one):
        one, other = other, one
    if any(has(s, ast.Return, ast.Yield) for s in one):
        return True
    around = [n for s in one for n in each(s, ast.stmt, ast.expr) if _spans(n, cutting)]
    bound = {key(t) for n in around for t in targets_of(n)}
    there = {key(t) for s in other for n in walked(s) for t in targets_of(n)}
    own = {key(t) for s in one if s not in around for n in walked(s) for t in targets_of(n)}  # there is none otherwise
    replaced = {value, *(key(n.value) for n in around if isinstance(n, ast.Attribute))} - own
    return bool(bound & (there | replaced))


def _spans(node: ast.stmt | ast.expr, frame: Frame) -> bool:
    begin = (node.lineno, node.col_offset + 1)
    end = (node.end_lineno or node.lineno, (node.end_col_offset or 0) + 1)
    return begin <= (frame.line, frame.column) < end


# Whether a value is all that a term of the failing loss is made of: taken as a constant, the term trains nothing.

_ADDING = frozenset({"AddBackward0", "SubBackward0", "RsubBackward0"})
_OF_ONE = frozenset({"NegBackward0", "MeanBackward0", "SumBackward0", "MulBackward0", "DivBackward0"})
"""They add nothing of another value where they take one alone: ``0.5 * loss``."""


def is_whole_term(folded: Folded | None, line: Frame) -> bool:
    """Whether what the failing loss takes up at this line comes from one value alone, which another line has made, and
    is but scaled and added up on its way to the loss. False where the graph is folded too much to tell."""
    if folded is None or folded.root < 0:
        return False
    here = {n for n, p in enumerate(folded.parts) if any(f.start[:2] == line.start[:2] for f in p.stack)}
    taken = folded.below(here)
    if not here or folded.root in here or len(taken) != 1 or any(folded.parts[n].parameters for n in taken):
        return False
    return all(_adds_up(folded, n) for n in above(folded, here))


def _adds_up(folded: Folded, number: int) -> bool:
    """Whether a part takes as many values as its sums have terms: then no product of it has two of them."""
    part = folded.parts[number]
    taken = sum(count for start, to, count in folded.edges if start == number != to)
    sums = sum(count for op, count in part.ops.items() if op in _ADDING)
    return set(part.ops) <= _ADDING | _OF_ONE and taken <= sums + 1


# Values that are drawn with a probability that is to be learnt: a draw has no derivative, whatever is recorded.

_DRAWS = frozenset({"bernoulli", "bernoulli_", "binomial", "multinomial", "poisson"})
"""Draws of whole numbers, whose result has no graph though their argument has one."""


def drawn_within(sources: SourceTexts, frame: Frame) -> tuple[str, str] | None:
    """A name that the expression at a place reads and that its function draws before, and the call that draws it.

    Not where the call is given constants alone: then nothing is to be learnt through it.
    """
    source, node = source_at(sources, frame), expression_at(sources, frame)
    within = source.node_function(node) if node is not None else None
    names = plain_names(node) if node is not None else set()
    for name in sorted(names):
        before = [s for s in source.node_assignments(name, within) if s.lineno < frame.line]
        for call in each(before[-1], ast.Call) if before else ():
            if called(call) in _DRAWS and any(has(a, ast.Name, ast.Attribute) for a in given_to(call)):
                return name, called(call)
    return None


# A value that one loss takes up at several places: to keep its graph lets each of them train what lies behind it.


def uses_of_cut(program: Program, cut: Cut) -> list[Frame]:
    """The places at which the loss takes up the value that was cut off, one for each line, where there are several.

    Of a value that has a plain name in the function that makes the backward call; empty for any other.
    """
    made = innermost_user(cut.stack)
    sign, raised = program.evidence.as_if, program.raised
    stack = sign.stack if sign is not None else raised.stack if raised is not None else []
    call = in_function(reversed(stack), made) if made is not None else None
    if made is None or call is None:
        return []
    source, statement = source_at(program.sources, made), statement_at(program.sources, made)
    within = source.node_function(statement) if statement is not None else None
    # A name that is bound once: what is assigned again under it is another value.
    bound = [n for n in bound_names(program.sources, made) if n.isidentifier()]
    names = [n for n in bound if len(source.node_assignments(n, within)) == 1]
    lines = {f.line: f for f, _ in uses_in_loss(program.sources, call, names) if f.line != made.line}
    return [lines[n] for n in sorted(lines)] if len(lines) > 1 else []


# A straight-through sum of which both parts are cut off: the value of one, and nobody's gradient.


def detached_estimator(program: Program) -> tuple[Cut, Frame, str] | None:
    """The cut of ``x`` in ``(q - x).detach() + x.detach()``, where the other part is cut off too; its place, and ``x``.

    Such a sum is ``q``: who adds ``x`` and takes it away wants its gradient.
    """
    sources = program.sources
    made = ((cut, place_of(sources, cut.stack)) for cut in program.cuts if cut.reason == "detach")
    spots = {at.extent: (cut, at) for cut, at in made if at is not None}
    for file in dict.fromkeys(at[0] for at in spots):
        for node in each(tree(sources, file), ast.BinOp):
            if isinstance(node.op, ast.Add):
                at = frame_of(sources, file, node)
                left, right = written_out(sources, at, node.left), written_out(sources, at, node.right)
                for kept, other in ((left, right), (right, left)):
                    cut, value = spots.get(frame_of(sources, file, kept).extent), detached(kept)
                    if cut is not None and value is not None and _takes_away(other, ast.unparse(value)):
                        return *cut, ast.unparse(value)
    return None


def _takes_away(node: ast.expr, text: str) -> bool:
    """Whether this is a difference that takes the value of this text away, and sends no gradient into it."""
    match detached(node) or node:
        case ast.BinOp(op=ast.Sub(), right=right) as difference:
            return bindings.text_of(right if difference is not node else detached(right)) == text
    return False


# Cuts that are the author's word: an explicit ``detach`` or ``no_grad``, unless the run or the program contradicts
# it. Whoever hands `model.parameters()` to an optimizer may well leave a part of the model as it is, and says so
# where it is used. Whoever hands over `encoder.parameters()` by name, or in a group of its own, wants them to learn.


def is_meant(program: Program) -> bool:
    """Whether what is told as a lost graph was measured, was written as a cut, and nothing contradicts that."""
    sign = program.evidence.as_if
    if sign is None or not sign.facts.get("said") or sign.facts.get("apart"):
        return False
    return not given_by_name(program, sign)


def given_by_name(program: Program, sign: Sign) -> bool:
    """Whether the optimizer of a sign is made of a list in which the module that holds all of its parameters, or the
    one that it is, is named by itself."""
    number, parameters = sign.facts.get("optimizer", sign.optimizer), sign.parameters
    optimizer = optimizer_with(program.optimizers, number)
    making = made(program.sources, optimizer)
    if optimizer is None or making is None:
        return False
    named = {bindings.text_of(n) for n in each(making.statement.value, ast.Name, ast.Attribute)}
    every, mine = [*optimizer.parameters, *parameters], {*parameters}
    return any(within(text, every).keys() == mine for text in named)


# Whether a value without a graph was left by an earlier round of a loop, and kept since, or was made in this one.


def left_by_an_earlier_round(loss: Sequence[Frame], cut: Cut) -> Frame | None:
    """The line at which an earlier round, or call, computed a value; None where this one may have.

    Where the function in which the loss and the cut part has the cut behind the line of the loss (of which ``loss`` is
    the stack), the loss cannot come from what that line computes in the same round.
    """
    for ours, other in zip(loss, cut.stack, strict=False):
        if not ours.in_function_of(other):
            return None
        if ours.line != other.line:
            return other if other.user and other.line > ours.line else None
    return None
