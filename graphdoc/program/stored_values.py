"""Where in the source a carried value is kept, where it is bound to a name, and behind which step it can be cut."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from dataclasses import replace

from graphdoc.evidence import Frame, Holder, Node, Raised, SourceTexts
from graphdoc.program.bindings import frame_of, function_around, tree
from graphdoc.program.container_entries import entry_of, handed_over, putting, statements, statements_at
from graphdoc.program.keeping_statements import is_local, is_start, keeps, kept_name, misses
from graphdoc.source.paths import covers, without_subscripts

Statement = ast.stmt


def user_frames(stack: Sequence[Frame]) -> list[Frame]:
    """The user's frames, innermost first."""
    return [f for f in reversed(stack) if f.user]


def kept_at(
    sources: SourceTexts, nodes: Sequence[Node], raised: Raised | None, holders: Iterable[Holder], producer: Node
) -> list[Frame]:
    """The statements that keep a value under the names by which it is held, most likely first.

    Looked for in the function of a local name; for an attribute in the functions on the producer's stack, innermost
    first, then in those on the failing stack, then anywhere in the user's files, in functions that made a part of the
    graph (``nodes``) before others, of which nothing shows that they ever ran. Of several statements of one function
    it is the one that ran when the value was made, where it is among them. A local name of a function that was not
    under way by then has taken it out of a store: it is told where nothing else is.
    """
    out: list[Frame] = []
    taken_out: list[Frame] = []
    making = {f.function for f in user_frames(producer.stack)}
    for holder in holders:
        local = not any(s.kind == "attribute" for s in holder.steps) and holder.function not in making
        for frame in _kept_by(sources, nodes, raised, holder, producer):
            if not any(frame.start == f.start for f in (*out, *taken_out)):
                (taken_out if local and frame.function == holder.function else out).append(frame)
    return out or taken_out


def _kept_by(
    sources: SourceTexts, nodes: Sequence[Node], error: Raised | None, holder: Holder, producer: Node
) -> list[Frame]:
    name = kept_name(holder)
    raised = error.stack if error else []
    made = user_frames(producer.stack)
    entry = entry_of(holder)
    if entry is not None and entry.field:
        put = [f for f, _ in putting(sources, made, entry)]
        handed = handed_over(sources, made, entry) if not put else None
        if put or handed is not None:
            return put[:2] if handed is None else [handed[0]]
    if not any(s.kind == "attribute" for s in holder.steps):
        if len(holder.steps) > 1:
            # An entry of a dict or list: the statement that puts it in may stand in another function.
            written = _stores(sources, made, holder, made, entries=True)
            if written:
                return written
        bound = _stores(sources, _declaring(sources, made, name), holder, made, plain=True)
        if bound:
            return bound
        scopes = [f for f in (*user_frames(raised), *made) if f.function == holder.function]
        return _stores(sources, scopes[:1], holder, made, plain=True)
    # A local variable may bear the attribute's name, where it is read and where it is made: it keeps nothing for later.
    found = _stores(sources, made, holder, made, entries=True)
    found = found or _stores(sources, user_frames(raised), holder, made, entries=True)
    if not found:
        found = _anywhere(sources, nodes, holder, made)
    return found or _object_of(sources, nodes, error, holder, producer)


def _object_of(
    sources: SourceTexts, nodes: Sequence[Node], error: Raised | None, holder: Holder, producer: Node
) -> list[Frame]:
    """For an attribute that no file of the user's sets: the statement that keeps the object, where it made the value.

    A distribution that ``__init__`` builds keeps what it computes from its arguments under names of its own.
    """
    last = max(i for i, s in enumerate(holder.steps) if s.kind == "attribute")
    outer = replace(holder, steps=holder.steps[:last])
    if last < 2 or outer.steps[-1].kind != "attribute":
        return []
    made = user_frames(producer.stack)
    return [
        k
        for k in _kept_by(sources, nodes, error, outer, producer)
        if any(f.file == k.file and k.line <= f.line <= k.end_line for f in made)
    ]


def _declaring(sources: SourceTexts, frames: Sequence[Frame], name: str) -> list[Frame]:
    """The frames in functions that bind a name of an outer scope: ``global state``, ``nonlocal state``."""
    out = []
    for frame in frames:
        root = tree(sources, frame.file)
        scope = function_around(root, frame.line) if root is not None else None
        if scope is not None and any(
            isinstance(s, ast.Global | ast.Nonlocal) and name in s.names for s in statements(scope)
        ):
            out.append(frame)
    return out


def _stores(
    sources: SourceTexts,
    frames: Sequence[Frame],
    holder: Holder,
    made: Sequence[Frame],
    plain: bool = False,
    entries: bool = False,
) -> list[Frame]:
    """Those of the first of these functions that has any; ``made`` is the stack on which the value was made."""
    name = kept_name(holder)
    for frame in frames:
        root = tree(sources, frame.file)
        if root is None:
            continue
        scope: ast.AST = function_around(root, frame.line) or root
        hits = [s for s in statements(scope) if keeps(s, name, plain) and not (entries and is_local(s, holder))]
        # What is bound again and again is kept by the binding that takes it out of a computation, not by its start.
        hits = [s for s in hits if not is_start(s)] or hits
        # An operation on the tensor itself would have made the value, and one that made it was a statement that ran.
        ran = [s for s in hits if _ran_in(s, frame.file, made)]
        hits = ran or [s for s in hits if not misses(s, holder)]
        if hits:
            # The last one is in force when the function ends or its loop goes round.
            return [frame_of(sources, frame.file, s, frame.function) for s in reversed(hits[-2:])]
    return []


def _ran_in(statement: ast.stmt, file: str, made: Sequence[Frame]) -> bool:
    last = statement.end_lineno or statement.lineno
    return any(f.file == file and statement.lineno <= f.line <= last for f in made)


def _anywhere(sources: SourceTexts, nodes: Sequence[Node], holder: Holder, made: Sequence[Frame]) -> list[Frame]:
    """The statements of all files that put something under an attribute's name, but for an empty start value; those
    of functions that made a part of the graph alone, where there are any."""
    out: list[Frame] = []
    starts: list[Frame] = []
    working: list[Frame] = []
    seen = {(f.file, f.line) for n in nodes for f in n.stack if f.user}
    for file in sources:
        root = tree(sources, file)
        for scope in ast.walk(root) if root is not None else ():
            if isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef):
                for s in statements(scope):
                    ran = _ran_in(s, file, made)
                    if keeps(s, kept_name(holder), False) and not is_local(s, holder) and (ran or not is_start(s)):
                        at = frame_of(sources, file, s, scope.name)
                        (starts if scope.name == "__init__" else out).append(at)
                        if any((file, n) in seen for n in range(scope.lineno, (scope.end_lineno or 0) + 1)):
                            working.append(at)
    return ([f for f in out if f in working] or out or starts)[:2]


def alias_of(sources: SourceTexts, frame: Frame) -> Frame | None:
    """Where the local name that is written through at ``frame`` was bound to an entry of something that lives longer.

    ``row = table.data[i]`` gives a view: what is written into ``row`` stays in the table.
    """
    root = tree(sources, frame.file)
    if root is None:
        return None
    scope: ast.AST = function_around(root, frame.line) or root
    name = ""
    for s in statements(scope):
        if covers(s, frame.line) and isinstance(s, ast.Assign | ast.AugAssign):
            target: ast.expr = s.targets[0] if isinstance(s, ast.Assign) else s.target
            base = without_subscripts(target)
            name = base.id if isinstance(base, ast.Name) else ""
    if not name:
        return None
    bound = [
        s
        for s in statements(scope)
        if isinstance(s, ast.Assign)
        and s.lineno < frame.line
        and any(isinstance(t, ast.Name) and t.id == name for t in s.targets)
    ]
    if not bound or not isinstance(bound[-1].value, ast.Subscript | ast.Attribute):
        return None
    return frame_of(sources, frame.file, bound[-1].value, frame.function)


def writes_the_same(sources: SourceTexts, frame: Frame) -> bool:
    """Whether a statement writes into a whole tensor, in place, what is made of the object's own attributes alone
    (``A *= self.mask``): no data of a pass goes on in it, and from pass to pass it is only done again."""
    for s in statements_at(sources, frame):
        if isinstance(s, ast.AugAssign) and isinstance(s.target, ast.Name):
            read = [n for n in ast.walk(s.value) if isinstance(n, ast.Name)]
            return bool(read) and all(n.id == "self" for n in read)
    return False


def dropped_detaches(sources: SourceTexts, files: Iterable[str]) -> list[Frame]:
    """Lines such as ``t.detach()`` whose result is thrown away: their author believes that the graph is cut there."""
    out = []
    for file in files:
        root = tree(sources, file)
        for node in ast.walk(root) if root is not None else ():
            if (
                isinstance(node, ast.Expr)
                and isinstance(node.value, ast.Call)
                and isinstance(node.value.func, ast.Attribute)
                and node.value.func.attr == "detach"
                and not node.value.args
            ):
                out.append(frame_of(sources, file, node))
    return out


def element_of(structure: object, path_steps: int) -> object:
    """The structure of an entry, ``path_steps`` levels inside a container."""
    for _ in range(path_steps):
        if not isinstance(structure, dict) or not structure:
            return structure
        inner = next(iter(structure.values()))
        structure = inner[0] if isinstance(inner, list) and inner else inner
        if isinstance(structure, dict) and "optional" in structure:
            structure = structure["optional"]  # an entry that holds a tensor is not None
    return structure
