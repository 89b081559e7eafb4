"""Where values are kept: the entries of containers, names and attributes, and the step behind which they can be cut."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from graphdoc.evidence import Evidence, Frame, Holder, Node, SourceTexts, Step
from graphdoc.program.bindings import everywhere, frame_of, function_at, methods_of, scope_at, tree
from graphdoc.source.module import Function, each, is_method_call
from graphdoc.source.paths import (
    bare_call,
    called,
    covers,
    elements,
    entries_of,
    is_attribute,
    is_constant,
    is_name,
    last_word,
    only,
    targets_of,
    without_subscripts,
)

FILLING = frozenset({"append", "appendleft", "extend", "insert", "add", "setdefault", "update", "push", "put"})
MOST_PUTS = 6
"""Statements that fill one container which are told: all of them have to be cut."""


@lru_cache(maxsize=4096)
def statements(scope: ast.AST) -> tuple[ast.stmt, ...]:
    """Statements of a scope in order of the source, without those of functions inside it."""
    found: list[ast.stmt] = []
    for child in ast.iter_child_nodes(scope):
        if isinstance(child, Function | ast.ClassDef):
            continue
        if isinstance(child, ast.stmt):
            found.append(child)
        if isinstance(child, ast.stmt | ast.ExceptHandler | ast.match_case):  # no other node holds statements
            found += statements(child)
    return tuple(found)


def statements_at(sources: SourceTexts, frame: Frame) -> list[ast.stmt]:
    """The statements on the line of a place, of the function around it (or of the file), the outermost first."""
    return [s for s in statements(scope_at(sources, frame)) if covers(s, frame.line)]


@dataclass(frozen=True)
class Entry:
    """A tensor in a container: the container's name, the class of the entry, and where in the entry the tensor is.

    ``field`` is the attribute, key (as Python text) or position of the tensor inside the entry; None where the entry is
    the tensor. ``rest`` are the steps behind the field.
    """

    container: str
    type: str
    field: Step | None
    rest: tuple[Step, ...] = ()


_CONTAINERS = frozenset({"list", "deque", "dict", "defaultdict", "OrderedDict"})


def entry_of(holder: Holder) -> Entry | None:
    """The entry of a list, deque or dict through which a tensor is held; None for a variable or attribute."""
    steps = holder.steps
    for i in range(len(steps) - 1, 0, -1):
        above = steps[i - 1]
        # A dict that is itself an entry of a list has fields, and contains no entries.
        record = i > 1 and above.type == "dict" and above.kind == "index" and steps[i - 2].type in ("list", "deque")
        if steps[i].kind in ("index", "key") and above.type in _CONTAINERS and not record:
            name = next((s.key for s in reversed(steps[:i]) if s.kind in ("name", "attribute")), "")
            rest = tuple(steps[i + 1 :])
            return Entry(name, steps[i].type, rest[0] if rest else None, rest[1:])
    return None


def putting(sources: SourceTexts, frames: Sequence[Frame], entry: Entry) -> list[tuple[Frame, ast.stmt]]:
    """The statements of the innermost function on a stack that puts such entries in, the last first."""
    for frame in frames:
        scope = scope_at(sources, frame)
        every = list(statements(scope))
        like = [s for s in every if _puts_like(s, entry)]
        hits = [s for s in every if _puts(s, entry)] or (like if len(like) == 1 else [])
        if hits:
            hits = [_built(scope, s, entry) or s for s in reversed(hits[-MOST_PUTS:])]
            return [(frame_of(sources, frame, s), s) for s in hits]
        # The object in the container keeps it itself: `self.state = …` in one of its methods.
        field = entry.field.key if entry.field is not None and entry.field.kind in ("attribute", "field") else ""
        if any(is_attribute(t, field) for s in every for t in targets_of(s)):
            return []
    return []


def _puts(statement: ast.stmt, entry: Entry) -> bool:
    if (call := bare_call(statement)) is not None:
        of_name = is_method_call(call, *FILLING) and last_word(call.func.value) == entry.container
        return of_name or (is_method_call(call, *FILLING) and entry.type in map(called, call.args))
    return any(isinstance(t, ast.Subscript) and last_word(t.value) == entry.container for t in targets_of(statement))


def handed_over(
    sources: SourceTexts, frames: Sequence[Frame], entry: Entry
) -> tuple[Frame, ast.stmt, ast.Call, ast.FunctionDef, ast.stmt] | None:
    """The one statement, in the functions on a stack, that calls a method which puts something into the container.

    With it the call, the method and the statement of that; None where there is none, or more than one.
    """
    fillers: dict[str, list[tuple[ast.FunctionDef, ast.stmt]]] = {}
    for m in (m for _, owner in everywhere(sources, ast.ClassDef) for m in owner.body):
        for s in statements(m) if isinstance(m, ast.FunctionDef) else ():
            # What puts a constant in keeps a place: ``self.memory.append(None)``.
            if isinstance(m, ast.FunctionDef) and _puts(s, entry) and not isinstance(_put_together(s), ast.Constant):
                fillers.setdefault(m.name, []).append((m, s))
    for frame in frames:
        calls = ((s, call) for s in statements(scope_at(sources, frame)) if (call := bare_call(s)) is not None)
        ways = ((s, call, only(fillers.get(called(call), []))) for s, call in calls)
        found = [(frame_of(sources, frame, s), s, call, *way) for s, call, way in ways if way is not None]
        if found:
            return only(found)
    return None


def _puts_like(statement: ast.stmt, entry: Entry) -> bool:
    """Whether a statement fills a list, whatever it is called there, with something written as such an entry is."""
    call, wanted = bare_call(statement), entry.field
    if not is_method_call(call, *FILLING) or wanted is None:
        return False
    put = call.args[-1] if call.args else None
    keys = [ast.unparse(k) for k in put.keys if k is not None] if isinstance(put, ast.Dict) else []
    if (entry.type, wanted.kind) == ("tuple", "index"):
        return isinstance(put, ast.Tuple) and int(wanted.key) < len(put.elts)
    return (entry.type, wanted.kind) == ("dict", "key") and wanted.key in keys


def _built(scope: ast.AST, statement: ast.stmt, entry: Entry) -> ast.stmt | None:
    """Where the entry was put together, if that is an earlier statement: ``step = Step(…)`` before ``append(step)``."""
    put = _put_together(statement)
    if not isinstance(put, ast.Name) or entry.field is None:
        return None
    above = (s for s in statements(scope) if isinstance(s, ast.Assign) and s.lineno < statement.lineno)
    bound = (s for s in above if any(is_name(t, put.id) for t in s.targets))
    made = [s for s in bound if isinstance(s.value, ast.Dict | ast.Tuple) or called(s.value) == entry.type]
    return next(reversed(made), None)


def given(sources: SourceTexts, statement: ast.stmt, entry: Entry) -> ast.expr | None:
    """The expression in such a statement that becomes the tensor's field of the entry; None where it is not written
    there."""
    call = bare_call(statement)
    value = _put_together(statement) if call is None or not call.keywords else None
    if entry.field is None:
        return value if not isinstance(value, ast.Starred) else None
    kinds = {ast.Dict: ("key",), ast.Tuple: ("index",), ast.List: ("index",), ast.Call: ("attribute", "field")}
    of_its_class = not isinstance(value, ast.Call) or called(value) == entry.type
    fits = of_its_class and entry.field.kind in kinds.get(type(value), ())
    return parts_of(sources, value, entry).get(entry.field.key) if fits and value is not None else None


def _put_together(statement: ast.stmt) -> ast.expr | None:
    """What a statement binds, or puts into a container as the last argument of a call."""
    call = bare_call(statement)
    return getattr(statement, "value", None) if call is None else call.args[-1] if call.args else None


def parts_beside(sources: SourceTexts, statement: ast.stmt, entry: Entry) -> dict[str, ast.expr]:
    """The other fields of the entry that a statement puts together."""
    parts = parts_of(sources, _put_together(statement), entry)
    return {at: v for at, v in parts.items() if entry.field is None or at != entry.field.key}


def parts_of(sources: SourceTexts, value: ast.expr | None, entry: Entry) -> dict[str, ast.expr]:
    """The fields of an entry that an expression puts together, by their key (as Python text), position or name."""
    if isinstance(value, ast.Dict):
        return {ast.unparse(k): v for k, v in zip(value.keys, value.values, strict=True) if k is not None}
    given = value.elts if isinstance(value, ast.Tuple | ast.List) else value.args if isinstance(value, ast.Call) else []
    plain = [] if any(isinstance(a, ast.Starred) for a in given) else given
    if not isinstance(value, ast.Call):
        return {str(i): e for i, e in enumerate(plain)}
    named = {k.arg: k.value for k in value.keywords if k.arg}
    return {**dict(zip(fields_of(sources, entry.type), plain, strict=False)), **named}


def fields_of(sources: SourceTexts, name: str) -> list[str]:
    """The fields of a dataclass or named tuple of the program, in order; empty where it is neither."""
    for _, n in everywhere(sources, ast.ClassDef, ast.Call):
        if isinstance(n, ast.ClassDef) and n.name == name:
            own = [s.target for s in n.body if isinstance(s, ast.AnnAssign)] if "__init__" not in methods_of(n) else []
            return [t.id for t in own if isinstance(t, ast.Name)]
        if isinstance(n, ast.Call) and called(n) == "namedtuple" and len(n.args) > 1 and is_constant(n.args[0], name):
            written = getattr(n.args[1], "value", None)
            parts = [str(e.value) for e in elements(n.args[1]) if isinstance(e, ast.Constant)]
            return written.replace(",", " ").split() if isinstance(written, str) else parts
    return []


# Whether a statement keeps a value under a name: what it binds, fills or sets, and whether that is a mere start.


def kept_name(holder: Holder) -> str:
    """The last name on the way to the tensor: the field, attribute or variable whose entries are what is kept."""
    return next((s.key for s in reversed(holder.steps) if s.kind in ("name", "attribute")), holder.base)


def keeps(statement: ast.stmt, name: str, plain: bool) -> bool:
    """Whether a statement binds a name, fills it or sets it, as an attribute too unless the name is ``plain``."""
    call = bare_call(statement)
    targets = targets_of(statement) if isinstance(statement, ast.Assign | ast.AnnAssign | ast.AugAssign) else []
    targets += [call.func.value] if is_method_call(call, *FILLING) else []
    given = call.args[1:2] if call is not None and called(call) == "setattr" and not plain else []
    return any(_names(t, name, plain) for t in targets) or any(is_constant(a, name) for a in given)


def _names(target: ast.expr, name: str, plain: bool) -> bool:
    while isinstance(target, ast.Subscript | ast.Starred):
        target = target.value
    if isinstance(target, ast.Attribute):
        return not plain and target.attr == name
    return is_name(target, name)


def is_start(statement: ast.stmt) -> bool:
    """``h = None``, ``loss = 0``, ``state = torch.zeros(…)``: a start value, not what is carried."""
    value = getattr(statement, "value", None)
    empty = isinstance(value, ast.List | ast.Dict | ast.Tuple) and not entries_of(value)
    made = is_method_call(value, "zeros", "zeros_like", "ones", "empty", "init_hidden", "reset", "full", "randn")
    return empty or made or isinstance(value, ast.Constant)


def is_local(statement: ast.stmt, holder: Holder) -> bool:
    """``name = …``: the name itself is bound, no entry is put in and no attribute set. Where the value itself is the
    attribute, what is put into a part of a local tensor of that name is another one as well.
    """
    bound = [t for t in targets_of(statement) if _names(t, kept_name(holder), False)]
    bound = [without_subscripts(t) for t in bound] if holder.steps[-1].kind == "attribute" else bound
    return bool(bound) and all(isinstance(t, ast.Name) for t in bound)


def misses(statement: ast.stmt, holder: Holder) -> bool:
    """Whether no target of this name puts the tensor there: it writes inside the tensor (``state[0, row] = x`` where
    ``state`` is one) or to an entry of a tuple, which has no place for it."""
    last = max((i for i, s in enumerate(holder.steps) if s.kind in ("name", "attribute")), default=0)
    inner = holder.steps[last + 1 :]
    within = [n for t in targets_of(statement) if (n := _subscripts(t, kept_name(holder))) is not None]
    return bool(within) and all(
        n > len(inner) or (n > 0 and (holder.steps[last + n - 1].type == "tuple" or inner[n - 1].kind == "field"))
        for n in within
    )


def _subscripts(target: ast.expr, name: str) -> int | None:
    """How many subscripts stand behind a name in a target; None where it is another's."""
    count = 0
    while isinstance(target, ast.Subscript | ast.Starred):
        count += isinstance(target, ast.Subscript)
        target = target.value
    return count if last_word(target) == name else None


# Where in the source a carried value is kept, where it is bound to a name, and behind which step it can be cut.


def user_frames(stack: Sequence[Frame]) -> list[Frame]:
    """The user's frames, innermost first."""
    return [f for f in reversed(stack) if f.user]


def kept_at(run: Evidence, holders: Iterable[Holder], producer: Node, failing: bool = True) -> list[Frame]:
    """The statements that keep a value under the names by which it is held, most likely first.

    Looked for in the function of a local name; for an attribute in the functions on the producer's stack, innermost
    first, then in those on the stack of a run that is ``failing``, then anywhere in the user's files, in functions that
    made a part of the graph before others, of which nothing shows that they ever ran. Of several statements of one
    function it is the one that ran when the value was made, where it is among them. A local name of a function that was
    not under way by then has taken it out of a store: it is told where nothing else is.
    """
    out: list[Frame] = []
    taken_out: list[Frame] = []
    making = {f.function for f in user_frames(producer.stack)}
    for holder in holders:
        local = not any(s.kind == "attribute" for s in holder.steps) and holder.function not in making
        for frame in _kept_by(run, holder, producer, failing):
            if not any(frame.start == f.start for f in (*out, *taken_out)):
                (taken_out if local and frame.function == holder.function else out).append(frame)
    return out or taken_out


def _kept_by(run: Evidence, holder: Holder, producer: Node, failing: bool) -> list[Frame]:
    name = kept_name(holder)
    raised = run.raised.stack if failing and run.raised else []
    made = user_frames(producer.stack)
    entry = entry_of(holder)
    if entry is not None and entry.field:
        put = [f for f, _ in putting(run.sources, made, entry)]
        handed = handed_over(run.sources, made, entry) if not put else None
        if put or handed is not None:
            return put[:2] if handed is None else [handed[0]]
    if not any(s.kind == "attribute" for s in holder.steps):
        # An entry of a dict or list: the statement that puts it in may stand in another function.
        written = _stores(run.sources, made, holder, made, entries=True) if len(holder.steps) > 1 else []
        outer = ((f, function_at(run.sources, f)) for f in made)
        declaring = [f for f, s in outer if any(name in n.names for n in each(s, ast.Global, ast.Nonlocal))]
        scopes = [f for f in (*user_frames(raised), *made) if f.function == holder.function]
        found = written or _stores(run.sources, declaring, holder, made, plain=True)
        return found or _stores(run.sources, scopes[:1], holder, made, plain=True)
    # A local variable may bear the attribute's name, where it is read and where it is made: it keeps nothing for later.
    found = _stores(run.sources, made, holder, made, entries=True)
    found = found or _stores(run.sources, user_frames(raised), holder, made, entries=True)
    return found or _anywhere(run, holder, made) or _object_of(run, holder, producer, failing)


def _object_of(run: Evidence, holder: Holder, producer: Node, failing: bool) -> list[Frame]:
    """For an attribute that no file of the user's sets: the statement that keeps the object, where it made the value.

    A distribution that ``__init__`` builds keeps what it computes from its arguments under names of its own.
    """
    last = max(i for i, s in enumerate(holder.steps) if s.kind == "attribute")
    outer = replace(holder, steps=holder.steps[:last])
    if last < 2 or outer.steps[-1].kind != "attribute":
        return []
    made = user_frames(producer.stack)
    return [k for k in _kept_by(run, outer, producer, failing) if any(f.on_lines_of(k) for f in made)]


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
        scope = scope_at(sources, frame)
        hits = [s for s in statements(scope) if keeps(s, name, plain) and not (entries and is_local(s, holder))]
        # What is bound again and again is kept by the binding that takes it out of a computation, not by its start.
        hits = [s for s in hits if not is_start(s)] or hits
        # An operation on the tensor itself would have made the value, and one that made it was a statement that ran.
        ran = [s for s in hits if _ran_in(s, frame.file, made)]
        hits = ran or [s for s in hits if not misses(s, holder)]
        if hits:
            # The last one is in force when the function ends or its loop goes round.
            return [frame_of(sources, frame, s) for s in reversed(hits[-2:])]
    return []


def _ran_in(statement: ast.stmt, file: str, made: Sequence[Frame]) -> bool:
    last = statement.end_lineno or statement.lineno
    return any(f.file == file and statement.lineno <= f.line <= last for f in made)


def _anywhere(run: Evidence, holder: Holder, made: Sequence[Frame]) -> list[Frame]:
    """The statements of all files that put something under an attribute's name, but for an empty start value; those
    of functions that made a part of the graph alone, where there are any."""
    found: list[tuple[Frame, bool]] = []
    seen = [f for n in run.nodes for f in n.stack if f.user]
    for file, scope in everywhere(run.sources, ast.FunctionDef, ast.AsyncFunctionDef):
        kept = (s for s in statements(scope) if keeps(s, kept_name(holder), False) and not is_local(s, holder))
        kept = (s for s in kept if _ran_in(s, file, made) or not is_start(s))
        found += [(frame_of(run.sources, file, s, scope.name), _ran_in(scope, file, seen)) for s in kept]
    out = [(at, working) for at, working in found if at.function != "__init__"]
    return ([at for at, working in out if working] or [at for at, _ in out or found])[:2]


def alias_of(sources: SourceTexts, frame: Frame) -> Frame | None:
    """Where the local name that is written through at ``frame`` was bound to an entry of something that lives longer.

    ``row = table.data[i]`` gives a view: what is written into ``row`` stays in the table.
    """
    writing = [s for s in statements_at(sources, frame) if isinstance(s, ast.Assign | ast.AugAssign)]
    base = without_subscripts(targets_of(writing[-1])[0]) if writing else None
    name = base.id if isinstance(base, ast.Name) else ""
    above = [s for s in statements(scope_at(sources, frame)) if isinstance(s, ast.Assign) and s.lineno < frame.line]
    bound = [s.value for s in above if any(is_name(t, name) for t in s.targets)][-1:]
    return next((frame_of(sources, frame, v) for v in bound if isinstance(v, ast.Subscript | ast.Attribute)), None)


def writes_the_same(sources: SourceTexts, frame: Frame) -> bool:
    """Whether a statement writes into a whole tensor, in place, what is made of the object's own attributes alone
    (``A *= self.mask``): no data of a pass goes on in it, and from pass to pass it is only done again."""
    for s in statements_at(sources, frame):
        if isinstance(s, ast.AugAssign) and isinstance(s.target, ast.Name):
            read = list(each(s.value, ast.Name))
            return bool(read) and all(n.id == "self" for n in read)
    return False


def dropped_detaches(sources: SourceTexts, files: Iterable[str]) -> list[Frame]:
    """Lines such as ``t.detach()`` whose result is thrown away: their author believes that the graph is cut there."""
    found = ((file, node) for file in files for node in each(tree(sources, file), ast.Expr))
    return [frame_of(sources, f, n) for f, n in found if is_method_call(n.value, "detach") and not n.value.args]


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
