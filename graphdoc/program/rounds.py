"""Rounds of a loop: which of them a value belongs to, what each makes anew, what is kept from the first one."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from itertools import islice, takewhile

from graphdoc.evidence import Event, Evidence, Frame, Holder, Node, Package, SourceTexts, package_of
from graphdoc.program.bindings import everywhere, frame_of, function_at, statement_at
from graphdoc.program.carried_names import Carried
from graphdoc.program.spans import in_function, level_of, loops_around, node_loop_of
from graphdoc.source.module import Loop, each, has
from graphdoc.source.paths import covers


def of_this_round(run: Evidence, met: Node | None, failing: Event, made: Node) -> bool:
    """Whether a value was made in a loop behind which the call stands, since that call was last made, and is whole.

    A loss that is added up over the rounds of an inner loop, in which optimizers step: all of it is meant for the one
    call behind the loop. Nothing is carried there from one call of that line to its next. ``met`` is the node at which
    it failed.
    """
    level = level_of(made.stack, failing.stack)
    newest = made.iteration >= 0 and made.iteration == max(n.iteration for n in run.nodes)
    if met is None or met.state != "stale" or not newest or level is None:
        return False
    walked = any(n.state == "released" and n.sequence <= met.sequence for n in run.nodes)  # by an earlier call
    inner, outer = (loops_around(run.sources, f) for f in level)
    return not walked and len(inner) > len(outer) and all(loop in inner for loop in outer)


def made_for_each(sources: SourceTexts, made: Sequence[Frame], used: Sequence[Frame]) -> bool:
    """Whether each run of a line has a value of its own: the value is made above the line, and no loop that the line
    runs in leaves out the making. ``made`` and ``used`` are stacks."""
    below = [f for f in used if f.user]
    level = level_of(made, below)
    if level is None or level[0].start > level[1].start:
        return False
    inner = next(i for i, f in enumerate(below) if f is level[1])
    around, repeated = (loops_around(sources, f) for f in level)
    looped = any(loops_around(sources, f) for f in below[inner + 1 :])
    return not looped and all(loop in around for loop in repeated)


def behind_inner_loop(sources: SourceTexts, call: Sequence[Frame], step: Sequence[Frame]) -> bool:
    """Whether a call runs in a loop or a comprehension, and a step behind that. Both are stacks. A loop that may be
    left before its end chooses which of its rounds is the one."""
    level = level_of(call, step)
    if level is None or level[0].start >= level[1].start:
        return False
    inner, outer = (loops_around(sources, f) for f in level)
    if any(has(loop, ast.Break) for loop in inner if loop not in outer):
        return False
    whole = statement_at(sources, level[0])
    several = (n for n in each(whole, ast.expr) if hasattr(n, "generators"))
    more = len(inner) > len(outer) or any(level[0].lies_in(frame_of(sources, level[0].file, n)) for n in several)
    users = [f for f in call if f.user]
    more = more or any(f.function.endswith("<genexpr>") for f in users[users.index(level[0]) + 1 :][:1])
    return more and all(loop in inner for loop in outer)


# What earlier backward calls began at, as the user knows it: the loss, also where a package scaled it by a number.

_SCALING = ("DivBackward0", "MulBackward0")
MOST_SCALED = 2
"""Scalings of one loss, one right after the other: by the steps it accumulates over, and by the gradient scaler."""


def roots_of(events: list[Event], packages: list[Package]) -> set[tuple[int, int]]:
    """The roots of all backward calls, and what a package made a root of by scaling it: the sequence number of each
    node, and which of its outputs it is (-1: not known)."""
    out: set[tuple[int, int]] = set()
    for event in events:
        if event.kind == "backward" and event.root >= 0:
            out |= event.roots
            if event.root_op in _SCALING and _by_package(packages, event):
                # Nodes are numbered as they are made, and nothing is made between a loss and its scaling.
                out.update((n, -1) for n in range(event.root - MOST_SCALED, event.root) if n >= 0)
    return out


def leads_to(carry: Carried, roots: set[tuple[int, int]]) -> bool:
    """Whether an edge is into the very tensor that a call started from: the node, and the output of it."""
    outputs = {number for sequence, number in roots if sequence == carry.made.sequence}
    return bool(outputs) and (not carry.outputs or -1 in outputs or bool(outputs & set(carry.outputs)))


def _by_package(packages: list[Package], event: Event) -> bool:
    below = takewhile(lambda f: not f.user, reversed(event.stack))
    return any(package_of(packages, f.file) is not None for f in below)


# Values that a function makes at its first use and keeps: it has run again since, past the line that makes them.


def kept_since_first_use(carry: Carried, freeing: Event) -> bool:
    """Whether the older value was made in an arm of an ``if`` of a function, and a later run of that function went past
    this ``if`` without it and took the old value.

    ``if self.scale is None: self.scale = …``, and below it ``x / self.scale``: known where the value was made under the
    condition before the ``freeing`` call, and is taken behind the whole ``if`` after it. A call from within the
    function proves nothing, since both may lie in one run of it.
    """
    under_way = {(f.file, f.function) for f in freeing.stack}
    made = [f for f in carry.making if (f.file, f.function) not in under_way]
    pairs = ((f, used) for f in made for used in carry.using if used.in_function_of(f))
    return _before_and_behind(carry, freeing) and any(_behind_the_arm(carry.run.sources, *pair) for pair in pairs)


def _before_and_behind(carry: Carried, freeing: Event) -> bool:
    """Whether a value was made before a call and taken up behind it."""
    return carry.taken is not None and carry.made.sequence < freeing.sequence <= carry.taken.sequence


def kept_by_package(carry: Carried, freeing: Event | None) -> bool:
    """Whether a package keeps the older value to itself, and what ran when the value was made has run again behind the
    ``freeing`` call and took the value as it was: a function of the package, or the program's own line.

    To itself: under a private attribute alone that no line of the program names.
    """
    if freeing is None or carry.taken is None or not carry.holders or not _before_and_behind(carry, freeing):
        return False
    under_way = {(f.file, f.function) for f in freeing.stack}
    ran = {(f.file, f.function) for f in carry.made.stack if not f.user} - under_way
    pairs = zip(carry.making[:1], carry.using, strict=False)
    one_line = any((made.file, made.line) == (taken.file, taken.line) for made, taken in pairs)
    again = one_line or any((f.file, f.function) in ran for f in carry.taken.stack)
    return again and all(_is_private(carry.run.sources, holder) for holder in carry.holders)


def _is_private(sources: SourceTexts, holder: Holder) -> bool:
    names = {s.key for s in holder.steps if s.kind == "attribute" and s.key.startswith("_")}
    return bool(names - {n.attr for _, n in everywhere(sources, ast.Attribute)})


def _behind_the_arm(sources: SourceTexts, made: Frame, taken: Frame) -> bool:
    """Whether one line stands in an arm of an ``if`` of this function, and the other behind the whole ``if``."""
    function = function_at(sources, made)
    arms = (n for n in each(function, ast.If) if covers(n, made.line) and not n.orelse)
    below = any(taken.line > (n.end_lineno or n.lineno) for n in arms)
    return below and function is not None and covers(function, taken.line)


# Values that every round of the loop around a backward call makes anew, whichever of them its loss then uses.

_PLAIN = ("torch/nn/functional.py", "torch/functional.py", "torch/_tensor.py")


def made_each_round(sources: SourceTexts, producer: Node, failing: Event) -> bool:
    """Whether the round that failed has surely made such a value as well, ahead of its call.

    The line that leads to its making stands in the body of the loop around the call, under no condition; so do the
    lines below it in their functions, none of which may end before or keep its result. What a package computes below
    them it may keep (``parametrize.cached``); of a layer's and a function's own code that is known not to be so.
    """
    call, loop, at = next(_rounds(sources, failing, producer), (None, None, None))
    if call is None or loop is None or at is None or at.line >= call.line or not _computes_anew(producer.stack):
        return False
    made = [f for f in producer.stack if f.user]
    inner = all(_always_runs(sources, f) for f in made[made.index(at) + 1 :])
    return inner and _is_plain(loop.body, at.line)


def _rounds(sources: SourceTexts, call: Event, other: Node | Event) -> Iterator[tuple[Frame, Loop, Frame | None]]:
    """The loops of the user's around a call, from the innermost function on, each with the line of the call in it and
    the one in it at which the other thing was done."""
    users = [f for f in other.stack if f.user]
    for frame in reversed([f for f in call.stack if f.user]):
        loop, at = node_loop_of(sources, frame), in_function(users, frame)
        if loop is not None:
            yield frame, loop, at if at is not None and covers(loop, at.line) else None


def in_loop_of(sources: SourceTexts, one: Event, other: Event) -> bool:
    """Whether another call is made in the innermost loop of the user's around a call, and in no other one behind it."""
    return any(at is not None for _, _, at in islice(_rounds(sources, one, other), 1))


def made_outside_loops(sources: SourceTexts, producer: Node, failing: Event) -> bool:
    """Whether a value was made by a line that stands in no loop of the user's around the failing call."""
    inside = any(at is not None for _, _, at in _rounds(sources, failing, producer))
    return not inside and any(f.user for f in producer.stack)


def _computes_anew(stack: list[Frame]) -> bool:
    """Whether below the user's innermost line there is nothing but PyTorch's layers, functions and distributions, which
    keep their parameters in another form alone (``lazy_property`` of torch/distributions/utils.py)."""
    last = max((i for i, f in enumerate(stack) if f.user), default=-1)
    files = [f.file.replace("\\", "/") for f in stack[last + 1 :]]
    return not any(file.endswith("torch/distributions/utils.py") for file in files) and all(
        "torch/nn/modules/" in file or "torch/distributions/" in file or file.endswith(_PLAIN) for file in files
    )


def _always_runs(sources: SourceTexts, frame: Frame) -> bool:
    """Whether each call of the function around a place comes to it and computes it again."""
    function = function_at(sources, frame)
    return function is not None and not function.decorator_list and _is_plain(function.body, frame.line)


def _is_plain(block: list[ast.stmt], line: int) -> bool:
    """Whether a line stands in a simple statement of the block itself, and nothing may leave the block before it."""
    at = next((s for s in block if covers(s, line)), None)
    simple = isinstance(at, ast.Assign | ast.AnnAssign | ast.AugAssign | ast.Expr | ast.Return)
    computed = has(at, ast.IfExp, ast.BoolOp, ast.Lambda, ast.NamedExpr)
    before = takewhile(lambda s: s is not at, block)
    return simple and not computed and not any(has(s, ast.Return, ast.Break, ast.Continue, ast.Yield) for s in before)
