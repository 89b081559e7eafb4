"""Places: from frames of the evidence to labelled spans, with the loop, the tensors and the call that stand there."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, takewhile
from typing import Any, Protocol

from graphdoc.evidence import Cut, Event, Evidence, Frame, Node, Package, Sign, SourceTexts, package_of
from graphdoc.model import Role, Span
from graphdoc.program.bindings import call_at, expression_at, frame_of, source_at, statement_at, text_of
from graphdoc.source.module import Function, Loop, each, is_method_call
from graphdoc.source.paths import blocks_of, covers, elements, is_read, only


def innermost_user(stack: Sequence[Frame]) -> Frame | None:
    """The innermost frame of the user's own code, or None. ``stack`` is outermost first, as everywhere."""
    return next((frame for frame in reversed(stack) if frame.user), None)


class _Noted(Protocol):
    @property
    def stack(self) -> Sequence[Frame]: ...


def user_line(noted: _Noted | None) -> Frame | None:
    """The innermost line of the user's own code where a node was made, or a call; None for none of them."""
    return innermost_user(noted.stack) if noted is not None else None


def innermost(stack: Sequence[Frame]) -> Frame | None:
    """The innermost user frame, or the innermost frame at all where the user's code is not on the stack."""
    return innermost_user(stack) or (stack[-1] if stack else None)


def in_function(frames: Iterable[Frame], of: Frame) -> Frame | None:
    """The first of these frames that lies in the function of another one, or None."""
    return next((f for f in frames if f.in_function_of(of)), None)


Moment = tuple[int, int]
"""A place in time: a sequence number of the graph, then the index of a call; a node follows the calls of its number."""

_AFTER_CALLS = 1 << 60


def moment(of: Node | Event | None) -> Moment | None:
    """When a node was made or a call was made, for ``Span.when``; None where it has no number (AccumulateGrad)."""
    if of is None or of.sequence < 0:
        return None
    return (of.sequence, of.index if isinstance(of, Event) else _AFTER_CALLS)


def span(role: Role, frame: Frame, label: str = "", when: Moment | None = None) -> Span:
    """The frame's place as a span; the file stays as the frame names it.

    A frame without columns gives an empty span at column 1 (``column == end_column``), which stands for the whole line;
    ``in_whole_lines`` makes it that.
    """
    if frame.column > 0:
        end_line = frame.end_line or frame.line
        end_column = frame.end_column or frame.column
        return Span(role, frame.file, frame.line, frame.column, end_line, end_column, label, when)
    return Span(role, frame.file, frame.line, 1, frame.line, 1, label, when)


def span_of(
    role: Role, at: Sequence[Frame] | Frame | None, label: str = "", when: Moment | None = None
) -> tuple[Span, ...]:
    """The place of a frame, or of a stack (its innermost user frame), as a tuple of one span; of none for nothing."""
    frame = at if isinstance(at, Frame) else innermost(at or ())
    return (span(role, frame, label, when),) if frame else ()


def of_sign(sign: Sign, here: str, there: str) -> tuple[Span, ...]:
    """The place of a sign, as the one to change, and the other one that it has."""
    return (*span_of("cause", sign.stack, here), *span_of("related", sign.other, there))


def in_whole_lines(sources: SourceTexts, spans: Iterable[Span]) -> tuple[Span, ...]:
    """The spans, those that stand for a line from its first to its last character, where the source is kept."""
    out = []
    for one in spans:
        raw = _raw_line(sources, one) if (one.column, one.end_column) == (1, 1) else ""
        text = raw.strip()
        first = len(raw) - len(raw.lstrip()) + 1
        out.append(replace(one, column=first, end_column=first + len(text)) if text else one)
    return tuple(out)


def place(frame: Frame) -> dict[str, object]:
    """The frame's place as the arguments of a remedy carry it: file, line, column, end_line, end_column."""
    return {
        "file": frame.file,
        "line": frame.line,
        "column": frame.column,
        "end_line": frame.end_line,
        "end_column": frame.end_column,
    }


def where(frame: Frame | None) -> str:
    """``train.py:12``: the short form for a sentence; empty for None."""
    name = frame.file.replace("\\", "/").rpartition("/")[2] if frame is not None else ""
    return f"{name}:{frame.line}" if frame is not None else ""


def line_text(sources: SourceTexts, frame: Frame | None) -> str:
    """The source line of the frame without indentation, or an empty string where the source is not kept."""
    return _raw_line(sources, frame).strip() if frame else ""


def code_at(sources: SourceTexts, frame: Frame | None) -> str:
    """The exact expression that the frame was executing; the whole line where no columns are known."""
    if frame is None or frame.column <= 0 or frame.end_column <= 0:
        return line_text(sources, frame)
    lines = sources.get(frame.file, "").splitlines()
    last = frame.end_line or frame.line
    if not 1 <= frame.line <= last <= len(lines):
        return ""
    part = lines[frame.line - 1 : last]
    part[-1] = part[-1][: frame.end_column - 1]
    part[0] = part[0][frame.column - 1 :]
    return "\n".join(part)


LONGEST = 60
"""Characters of code that a sentence can hold."""


def short_code(sources: SourceTexts, frame: Frame | None) -> str:
    """The same on one line, for a sentence; empty where it is longer than one can hold."""
    code = " ".join(code_at(sources, frame).split())
    return code if len(code) <= LONGEST else ""


def _raw_line(sources: SourceTexts, frame: Frame | Span) -> str:
    lines = sources.get(frame.file, "").splitlines()
    return lines[frame.line - 1] if 1 <= frame.line <= len(lines) else ""


# The loop that a place of the source stands in.


def loop_of(sources: Mapping[str, str], frame: Frame) -> Frame | None:
    """The innermost ``for`` or ``while`` of the same function around a place; None where it stands in none."""
    loop = node_loop_of(sources, frame)
    return frame_of(sources, frame, loop) if loop is not None else None


def node_loop_of(sources: Mapping[str, str], frame: Frame) -> Loop | None:
    """The same as a syntax node."""
    statement = statement_at(sources, frame)
    return source_at(sources, frame).node_loop(statement) if statement is not None else None


def loops_around(sources: SourceTexts, frame: Frame) -> list[Loop]:
    """The loops of the function around a place, innermost first."""
    statement = statement_at(sources, frame)
    return source_at(sources, frame).node_loops(statement) if statement is not None else []


def conditions_on(sources: SourceTexts, at: Frame, beside: Frame | None = None) -> list[tuple[ast.expr, bool]]:
    """The conditions on which a statement runs, in its function, each with whether it has to hold; those alone that do
    not decide on ``beside`` too."""
    statement = statement_at(sources, at)
    found: list[tuple[ast.expr, bool]] = []
    inner: ast.AST | None = statement
    for around in source_at(sources, at).node_ancestors(statement) if statement is not None else ():
        for block in blocks_of(around):
            if inner not in block:
                continue
            if isinstance(around, ast.If) and not (beside is not None and covers(around, beside.line)):
                found.append((around.test, inner in around.body))
            # ``if …: continue`` in front of it
            above = [s for s in block[: block.index(inner)] if isinstance(s, ast.If)]
            found += [
                (s.test, False)
                for s in above
                if isinstance(s.body[-1], ast.Continue | ast.Return) and (beside is None or s.lineno > beside.line)
            ]
        if isinstance(around, Function):
            break
        inner = around
    return found


def rounds_are_alike(sources: Mapping[str, str], loop: Frame) -> bool:
    """Whether a ``for`` goes through ``range`` and reads nothing of what it goes through: so many times the same."""
    match statement_at(sources, loop):
        case ast.For(target=ast.Name(id=name), iter=ast.Call(func=ast.Name(id="range")), body=body):
            return not any(n.id == name and is_read(n) for s in body for n in each(s, ast.Name))
    return False


def within_a_loop(sources: Mapping[str, str], calls: Sequence[Frame], last: Frame) -> list[Frame]:
    """The loops of the functions that a chain of calls goes through, outermost first, down to the place ``last``."""
    until = next((i for i, f in enumerate(calls) if f is last), len(calls))
    return [loop for f in calls[: until + 1] if (loop := loop_of(sources, f)) is not None]


# Where several stacks part: the function in which a forward, a write and a backward call all stand.


def level_of(*stacks: Sequence[Frame]) -> tuple[Frame, ...] | None:
    """The frames of the innermost function that all of them have in common, or None."""
    found: tuple[Frame, ...] | None = None
    for level in zip(*([f for f in s if f.user] for s in stacks), strict=False):
        if len({(f.file, f.function) for f in level}) > 1:
            break
        found = level
        if len({(f.line, f.column, f.end_line, f.end_column) for f in level}) > 1:
            break
    return found


def alike(one: Sequence[Frame], other: Sequence[Frame]) -> list[Frame]:
    """The calls that two stacks begin with in common, by their lines."""
    pairs = zip(one, other, strict=False)
    return [a for a, _ in takewhile(lambda p: p[0].in_function_of(p[1]) and p[0].line == p[1].line, pairs)]


def depth(forward: Sequence[Frame], write: Sequence[Frame], backward: Sequence[Frame]) -> int:
    """How many user frames stand above the function in which the three part."""
    level = level_of(forward, write, backward)
    users = [f for f in forward if f.user]
    return users.index(level[0]) if level is not None else 0


def shared_levels(forward: Sequence[Frame], write: Sequence[Frame]) -> int:
    """How many calls of the user's code a forward and a write have in common."""
    pairs = zip(*([f for f in s if f.user] for s in (forward, write)), strict=False)
    same = takewhile(lambda p: (p[0].function, p[0].extent) == (p[1].function, p[1].extent), pairs)
    return sum(1 for _ in same)


def in_this_order(*calls: Sequence[Frame]) -> bool:
    """Whether one function makes these calls, one below the other."""
    common = min(shared_levels(one, other) for one, other in pairwise(calls))
    own = [[f for f in call if f.user][common : common + 1] for call in calls]
    places = [(f.file, f.function, f.line, f.column) for frames in own for f in frames]
    return len(places) == len(calls) and len({p[:2] for p in places}) == 1 and places == sorted({*places})


def apart(one: Sequence[Frame], other: Sequence[Frame]) -> tuple[Sequence[Frame], Sequence[Frame]]:
    """The user's frames of two calls, without what both have below: two statements that call one helper, and not the
    line of the helper. Two calls that came the same way keep all."""
    ways = [f for f in one if f.user], [f for f in other if f.user]
    pairs = zip(*(reversed(w) for w in ways), strict=False)
    below = sum(1 for _ in takewhile(lambda p: p[0].extent == p[1].extent, pairs))
    ours, theirs = (w[: len(w) - below] for w in ways)
    return (ours, theirs) if ours and theirs else ways


# The tensors that the program could reach when it failed: leaf or not, recorded or not, and which line made them.

_MANGLED = re.compile(r"(?<!\w)_[A-Za-z]\w*?(__[A-Za-z0-9](?:\w*[A-Za-z0-9])?_?)(?!\w)")
"""A name of two underscores as Python keeps it for a class: ``_Trainer__weight`` for what is written ``__weight``
(Python's reference, section 6.2.1, private name mangling)."""


@dataclass(frozen=True)
class Reached:
    """One such tensor. ``path`` is how the program reaches it (``self.state[0]``), ``made`` the place of its node.

    ``op`` is the node's name, empty where it has none; ``type`` the name of its class.
    """

    path: str
    function: str
    requires_grad: bool
    is_leaf: bool
    op: str
    dtype: str
    inference: bool
    made: Frame | None
    shape: tuple[int, ...] = ()
    type: str = ""


def reached(extras: dict[str, Any]) -> Iterator[Reached]:
    """Every tensor that was looked at, those near the failure first; damaged entries are left out."""
    told = extras.get("locals")
    for entry in told if isinstance(told, list) else []:
        if isinstance(entry, dict) and isinstance(entry.get("path"), str):
            yield Reached(
                _MANGLED.sub(r"\1", entry["path"]),
                str(entry.get("function", "")),
                bool(entry.get("requires_grad")),
                bool(entry.get("is_leaf")),
                str(entry.get("op", "")),
                str(entry.get("dtype", "")),
                bool(entry.get("inference")),
                innermost(frames(entry.get("made"))),
                tuple(n for n in entry.get("shape") or () if isinstance(n, int)),
                str(entry.get("type", "")),
            )


def tensor_named(extras: dict[str, Any], name: str) -> Reached | None:
    """The tensor that the program reaches under this very name, or None."""
    return next((t for t in reached(extras) if t.path == name), None) if name else None


def frames(value: object) -> list[Frame]:
    """Frames that were kept as plain dictionaries in ``Evidence.extras``."""
    kept = [e for e in (value if isinstance(value, list) else []) if isinstance(e, dict)]
    whole = (e for e in kept if isinstance(e.get("file"), str) and isinstance(e.get("line"), int))
    return [Frame(**{k: v for k, v in e.items() if k in Frame.__dataclass_fields__}) for e in whole]


def innermost_at(value: object) -> Frame | None:
    """The last of such frames; None for none."""
    return next(reversed(frames(value)), None)


# Parts of a graph that `torch.compile` has made one node of: what is compiled together is freed together.


def is_compiled(node: Node | None) -> bool:
    """Whether a node is all of a compiled part."""
    return node is not None and node.op.startswith("CompiledFunction")


def compiled_around(node: Node | None, call: Event | None) -> bool:
    """Whether a differentiating call was made inside of what was compiled together: a whole training step.

    Such a function is cut at the call, and what stands before it is one part, whatever was detached in there.
    """
    made = innermost_user(node.stack) if node is not None and is_compiled(node) else None
    return made is not None and call is not None and made in call.stack[:-1] and made != innermost_user(call.stack)


# What a backward call of the program differentiates, as it is written there.


def differentiated_in(sources: SourceTexts, stack: Sequence[Frame]) -> str:
    """``loss`` of ``loss.backward()``, where that is the tensor's own method, and of ``torch.autograd.backward(loss)``
    or ``accelerator.backward(loss)``; empty where the program makes another call."""
    frame = innermost_user(stack)
    call = call_at(sources, frame)
    if frame is None or not is_method_call(call, "backward"):
        return ""
    below = stack[list(stack).index(frame) + 1 :]
    if not below or below[0].function == "Tensor.backward":
        return text_of(call.func.value)
    given = next(iter(call.args), None)
    return text_of(only(elements(given)) or given)


# Who runs the loop: a line of the user's that hands it to an installed package, which calls the user's code back.


def driver_of(evidence: Evidence) -> Frame | None:
    """The user's line below which a package ran both the forward pass and its backward: ``trainer.fit(…)``; or None."""
    event = evidence.failing_call
    stack = event.stack if event is not None else evidence.raised.stack if evidence.raised is not None else []
    line = innermost_user(stack) if evidence.packages else None
    below = list(takewhile(lambda f: not f.user, reversed(stack)))
    if line is None or not any(evidence.package(f.file) for f in below):
        return None
    made = _made_for(evidence.cuts, evidence.events, evidence.nodes, event)
    handed = not made and _takes_tensor(evidence.sources, evidence.extras, line)
    return line if not handed and all(any(is_at(f, line) for f in stack) for stack in made) else None


def _made_for(cuts: list[Cut], events: list[Event], graph: list[Node], event: Event | None) -> list[list[Frame]]:
    """The stacks of what was computed for the failing call: since the last one before it, as far as that is known.

    A package that is only asked to run backward may compute a little itself, such as a loss scaled by a number.
    """
    ends = ("backward", "grad", "step")
    before = (e.sequence for e in events if event is not None and e.index < event.index and e.kind in ends)
    last = max(before, default=-1)
    nodes = [n for n in graph if any(f.user for f in n.stack)]
    return [n.stack for n in [n for n in nodes if n.sequence >= last] or nodes] + [c.stack for c in cuts if c.stack]


def _takes_tensor(sources: SourceTexts, extras: dict[str, Any], line: Frame) -> bool:
    """Whether the line hands over a tensor that the program holds by name: ``accelerator.backward(loss)``.

    So does a container with tensors that carry gradients (``np.sum(layers, 0)``); one of data alone may be a loader.
    """
    node: ast.AST | None = expression_at(sources, line) or statement_at(sources, line)
    known = {t.path for t in reached(extras)}
    known |= {t.path.partition("[")[0] for t in reached(extras) if t.requires_grad}
    read = {ast.unparse(n) for n in each(node, ast.Name, ast.Attribute)} if node else set()
    return bool(known & read)


def is_at(frame: Frame, place: Any) -> bool:
    """Whether a frame, a span or the arguments of a remedy name this very place."""

    def get(name: str) -> Any:
        return place.get(name) if isinstance(place, Mapping) else getattr(place, name, None)

    return frame.start == (get("file"), get("line"), get("column"))


def inside(driver: Frame | None, stack: Sequence[Frame]) -> list[Frame]:
    """The user's frames of a stack below the driving line, outermost first; all of them where no package drives.

    The first is in the function that the package calls, for each batch or at each event.
    """
    users = [f for f in stack if f.user]
    return list(takewhile(lambda f: driver is None or not is_at(f, driver), users[::-1]))[::-1]


def once_a_batch(driver: Frame | None, sources: SourceTexts, stack: Sequence[Frame], frame: Frame) -> bool:
    """Whether a place of a stack stands in the function that a package calls for each batch, and in no loop there."""
    first = inside(driver, stack)[:1] if driver is not None and loop_of(sources, frame) is None else []
    return any(is_at(f, frame) for f in first)


def caller_of(packages: list[Package], stack: Sequence[Frame], frame: Frame) -> str:
    """The package that calls a function of the user's: ``lightning 2.6.6``; empty where none does."""
    at = next((i for i, f in enumerate(stack) if f is frame), 0)
    above = takewhile(lambda f: not f.user, reversed(stack[:at]))
    found = (package_of(packages, f.file) for f in above)
    return next((package.told for package in found if package is not None), "")


def names_place(value: Any, line: Frame, exact: bool = False) -> bool:
    """Whether the arguments of a remedy name a place that covers this line, or with ``exact`` this expression."""
    if isinstance(value, Mapping):
        if exact:
            return is_at(line, value) or any(names_place(v, line, exact) for v in value.values())
        first, last = value.get("line"), value.get("end_line") or value.get("line")
        if value.get("file") == line.file and isinstance(first, int) and isinstance(last, int):
            return first <= line.line <= last
        return any(names_place(v, line) for v in value.values())
    return isinstance(value, list | tuple) and any(names_place(v, line, exact) for v in value)
