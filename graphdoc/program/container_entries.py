"""The entries of lists, deques and dicts: which statement puts one in, and which expression in it is the tensor."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from graphdoc.evidence import Frame, Holder, SourceTexts, Step
from graphdoc.program.bindings import frame_of, function_around, tree
from graphdoc.source.paths import covers, last_word, targets_of

FILLING = frozenset({"append", "appendleft", "extend", "insert", "add", "setdefault", "update", "push", "put"})
MOST_PUTS = 6
"""Statements that fill one container which are told: all of them have to be cut."""


def statements(scope: ast.AST) -> Iterator[ast.stmt]:
    """Statements of a scope in order of the source, without those of functions inside it."""
    for child in ast.iter_child_nodes(scope):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            continue
        if isinstance(child, ast.stmt):
            yield child
        yield from statements(child)


def statements_at(sources: SourceTexts, frame: Frame) -> list[ast.stmt]:
    """The statements on the line of a place, of the function around it (or of the file), the outermost first."""
    root = tree(sources, frame.file)
    scope = (function_around(root, frame.line) or root) if root is not None else None
    return [s for s in statements(scope) if covers(s, frame.line)] if scope is not None else []


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
        if _is_record(steps, i - 1):
            continue
        if steps[i].kind in ("index", "key") and steps[i - 1].type in _CONTAINERS:
            name = next((s.key for s in reversed(steps[:i]) if s.kind in ("name", "attribute")), "")
            rest = tuple(steps[i + 1 :])
            return Entry(name, steps[i].type, rest[0] if rest else None, rest[1:])
    return None


def _is_record(steps: list[Step], i: int) -> bool:
    """Whether a dict is itself an entry of a list: it has fields then, and contains no entries."""
    return i > 0 and steps[i].type == "dict" and steps[i].kind == "index" and steps[i - 1].type in ("list", "deque")


def putting(sources: SourceTexts, frames: Sequence[Frame], entry: Entry) -> list[tuple[Frame, ast.stmt]]:
    """The statements of the innermost function on a stack that puts such entries in, the last first."""
    for frame in frames:
        root = tree(sources, frame.file)
        scope: ast.AST | None = (function_around(root, frame.line) or root) if root is not None else None
        every = list(statements(scope)) if scope is not None else []
        hits = [s for s in every if _puts(s, entry)] or _only(s for s in every if _puts_like(s, entry))
        if hits:
            hits = [_built(scope, s, entry) or s for s in reversed(hits[-MOST_PUTS:])] if scope is not None else []
            return [(frame_of(sources, frame.file, s, frame.function), s) for s in hits]
        if scope is not None and entry.field is not None and entry.field.kind in ("attribute", "field"):
            # The object in the container keeps it itself: `self.state = …` in one of its methods.
            for s in statements(scope):
                if any(isinstance(t, ast.Attribute) and t.attr == entry.field.key for t in targets_of(s)):
                    return []
    return []


def _puts(statement: ast.stmt, entry: Entry) -> bool:
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        call = statement.value
        if not isinstance(call.func, ast.Attribute) or call.func.attr not in FILLING:
            return False
        built = any(isinstance(a, ast.Call) and last_word(a.func) == entry.type for a in call.args)
        return built or last_word(call.func.value) == entry.container
    return any(isinstance(t, ast.Subscript) and last_word(t.value) == entry.container for t in targets_of(statement))


def handed_over(
    sources: SourceTexts, frames: Sequence[Frame], entry: Entry
) -> tuple[Frame, ast.stmt, ast.Call, ast.FunctionDef, ast.stmt] | None:
    """The one statement, in the functions on a stack, that calls a method which puts something into the container.

    With it the call, the method and the statement of that; None where there is none, or more than one.
    """
    fillers: dict[str, list[tuple[ast.FunctionDef, ast.stmt]]] = {}
    for file in sources:
        root = tree(sources, file)
        for owner in ast.walk(root) if root is not None else ():
            for m in owner.body if isinstance(owner, ast.ClassDef) else ():
                if isinstance(m, ast.FunctionDef):
                    puts = [s for s in statements(m) if _puts(s, entry) and not _keeps_a_place(s)]
                    fillers.setdefault(m.name, []).extend((m, s) for s in puts)
    found: list[tuple[Frame, ast.stmt, ast.Call, ast.FunctionDef, ast.stmt]] = []
    for frame in frames:
        root = tree(sources, frame.file)
        scope: ast.AST | None = (function_around(root, frame.line) or root) if root is not None else None
        for s in statements(scope) if scope is not None else ():
            call = s.value if isinstance(s, ast.Expr) else None
            if isinstance(call, ast.Call) and len(ways := fillers.get(last_word(call.func), [])) == 1:
                found.append((frame_of(sources, frame.file, s, frame.function), s, call, *ways[0]))
        if found:
            break
    return found[0] if len(found) == 1 else None


def _keeps_a_place(statement: ast.stmt) -> bool:
    """Whether it puts a constant in, to be replaced: ``self.memory.append(None)``."""
    value = getattr(statement, "value", None)
    put = value.args[-1] if isinstance(value, ast.Call) and value.args else value
    return isinstance(put, ast.Constant)


def _puts_like(statement: ast.stmt, entry: Entry) -> bool:
    """Whether a statement fills a list, whatever it is called there, with something written as such an entry is."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute) or call.func.attr not in FILLING:
        return False
    put, wanted = call.args[-1] if call.args else None, entry.field
    if wanted is None:
        return False
    if isinstance(put, ast.Tuple) and entry.type == "tuple" and wanted.kind == "index":
        return int(wanted.key) < len(put.elts)
    keys = [ast.unparse(k) for k in put.keys if k is not None] if isinstance(put, ast.Dict) else []
    return entry.type == "dict" and wanted.kind == "key" and wanted.key in keys


def _only(found: Iterator[ast.stmt]) -> list[ast.stmt]:
    """What was found, if it is one."""
    several = list(found)
    return several if len(several) == 1 else []


def _built(scope: ast.AST, statement: ast.stmt, entry: Entry) -> ast.stmt | None:
    """Where the entry was put together, if that is an earlier statement: ``step = Step(…)`` before ``append(step)``."""
    value = statement.value if isinstance(statement, ast.Expr | ast.Assign) else None
    put = value.args[-1] if isinstance(value, ast.Call) and value.args and isinstance(statement, ast.Expr) else value
    if not isinstance(put, ast.Name) or entry.field is None:
        return None
    found = [
        s
        for s in statements(scope)
        if isinstance(s, ast.Assign)
        and s.lineno < statement.lineno
        and any(isinstance(t, ast.Name) and t.id == put.id for t in s.targets)
        and isinstance(s.value, ast.Call | ast.Dict | ast.Tuple)
        and (not isinstance(s.value, ast.Call) or last_word(s.value.func) == entry.type)
    ]
    return found[-1] if found else None


def given(sources: SourceTexts, statement: ast.stmt, entry: Entry) -> ast.expr | None:
    """The expression in such a statement that becomes the tensor's field of the entry; None where it is not written
    there."""
    value: ast.expr | None = getattr(statement, "value", None)
    if isinstance(statement, ast.Expr) and isinstance(value, ast.Call):
        value = value.args[-1] if value.args and not value.keywords else None
    if value is None or isinstance(value, ast.Starred) or entry.field is None:
        return value if entry.field is None and not isinstance(value, ast.Starred) else None
    wanted = entry.field
    if isinstance(value, ast.Dict) and wanted.kind == "key":
        return next(
            (
                v
                for k, v in zip(value.keys, value.values, strict=True)
                if k is not None and ast.unparse(k) == wanted.key
            ),
            None,
        )
    if isinstance(value, ast.Tuple | ast.List) and wanted.kind == "index":
        plain = not any(isinstance(e, ast.Starred) for e in value.elts)
        return value.elts[int(wanted.key)] if plain and int(wanted.key) < len(value.elts) else None
    if isinstance(value, ast.Call) and last_word(value.func) == entry.type and wanted.kind in ("attribute", "field"):
        named = next((k.value for k in value.keywords if k.arg == wanted.key), None)
        if named is not None or any(isinstance(a, ast.Starred) for a in value.args):
            return named
        fields = fields_of(sources, entry.type)
        position = fields.index(wanted.key) if wanted.key in fields else len(value.args)
        return value.args[position] if position < len(value.args) else None
    return None


def fields_of(sources: SourceTexts, name: str) -> list[str]:
    """The fields of a dataclass or named tuple of the program, in order; empty where it is neither."""
    for file in sources:
        root = tree(sources, file)
        for n in ast.walk(root) if root is not None else ():
            if isinstance(n, ast.ClassDef) and n.name == name:
                if not any(isinstance(s, ast.FunctionDef) and s.name == "__init__" for s in n.body):
                    return [
                        s.target.id for s in n.body if isinstance(s, ast.AnnAssign) and isinstance(s.target, ast.Name)
                    ]
                return []
            if isinstance(n, ast.Call) and last_word(n.func) == "namedtuple" and len(n.args) > 1:
                first, second = n.args[0], n.args[1]
                if isinstance(first, ast.Constant) and first.value == name:
                    if isinstance(second, ast.Constant) and isinstance(second.value, str):
                        return second.value.replace(",", " ").split()
                    if isinstance(second, ast.List | ast.Tuple):
                        return [str(e.value) for e in second.elts if isinstance(e, ast.Constant)]
    return []
