"""Looking names up in the source that the evidence kept: who assigned this, which class, which call, what is unused."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import lru_cache

from graphdoc.evidence import Frame, SourceTexts
from graphdoc.source.module import Function, Source, parsed
from graphdoc.source.paths import covers

_Function = Function | ast.Lambda


def tree(sources: SourceTexts, file: str) -> ast.Module | None:
    """The syntax tree of a file of the run, or None where its source is missing or does not parse."""
    text = sources.get(file)
    return parsed(text) if text else None


def frame_of(sources: SourceTexts, file: str, node: ast.AST, function: str = "") -> Frame:
    """A syntax node as a frame, columns in characters (Python counts them in UTF-8 bytes)."""
    lines = Source(file, sources[file]).lines
    line = int(getattr(node, "lineno", 1))
    end = int(getattr(node, "end_lineno", None) or line)

    def column(number: int, offset: int) -> int:
        return lines.from_bytes(number, offset) - lines.start(number) + 1 if 0 < number <= len(lines) else 1

    start, stop = getattr(node, "col_offset", 0), getattr(node, "end_col_offset", None) or 0
    return Frame(file, line, column(line, start), end, column(end, stop), function, True)


def function_around(root: ast.AST, line: int) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    """The innermost ``def`` that contains the line."""
    found: Function | None = None
    for node in _definitions(root)[0]:
        if covers(node, line) and (found is None or node.lineno >= found.lineno):
            found = node
    return found


@lru_cache(maxsize=256)
def _definitions(root: ast.AST) -> tuple[list[Function], list[ast.ClassDef]]:
    """The functions and classes below a node, worked out once: most questions begin with the one around a line."""
    nodes = list(ast.walk(root))
    return [n for n in nodes if isinstance(n, Function)], [n for n in nodes if isinstance(n, ast.ClassDef)]


def class_around(root: ast.AST, line: int) -> ast.ClassDef | None:
    """The innermost class that contains the line."""
    around = (n for n in _definitions(root)[1] if covers(n, line))
    return max(around, key=lambda n: n.lineno, default=None)


def first_line(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """The line on which a function begins, its decorators included."""
    return min([function.lineno, *(d.lineno for d in function.decorator_list)])


def call_at(sources: SourceTexts, frame: Frame | None) -> ast.Call | None:
    """The outermost call that begins on the frame's line, or exactly at its columns where they are known."""
    root = tree(sources, frame.file) if frame else None
    if root is None or frame is None:
        return None
    calls = [n for n in ast.walk(root) if isinstance(n, ast.Call) and covers(n, frame.line)]
    if frame.column > 0:
        for call in calls:
            place = frame_of(sources, frame.file, call)
            if (place.line, place.column, place.end_column) == (frame.line, frame.column, frame.end_column):
                return call
    return next((c for c in calls if c.lineno == frame.line), calls[0] if calls else None)


def argument(call: ast.Call | None, position: int, keyword: str) -> ast.expr | None:
    """An argument of a call by position or keyword."""
    if call is None:
        return None
    named = next((k.value for k in call.keywords if k.arg == keyword), None)
    return named or (call.args[position] if position < len(call.args) else None)


def text_of(node: ast.AST | None) -> str:
    """The node as Python source, normalised; empty for None."""
    return ast.unparse(node) if node is not None else ""


def names_in(node: ast.AST | None) -> list[str]:
    """Names and dotted names that an expression reads, in the order in which they stand, each once."""
    found: dict[str, None] = {}
    if node is None:
        return []
    todo: list[ast.AST] = [node]
    while todo:
        n = todo.pop(0)
        if isinstance(n, ast.Attribute) and dotted(n):
            found.setdefault(dotted(n))
        elif isinstance(n, ast.Name):
            found.setdefault(n.id)
        else:
            todo = list(ast.iter_child_nodes(n)) + todo
    return list(found)


def is_name(node: ast.AST, name: str) -> bool:
    """Whether an expression is this name and nothing else."""
    return isinstance(node, ast.Name) and node.id == name


def dotted(node: ast.expr) -> str:
    parts: list[str] = []
    current: ast.expr = node
    while isinstance(current, ast.Attribute):
        parts.append(current.attr)
        current = current.value
    return ".".join([current.id, *reversed(parts)]) if isinstance(current, ast.Name) else ""


def assignments(sources: SourceTexts, frame: Frame, name: str) -> list[tuple[Frame, ast.expr]]:
    """The assignments to ``name`` that the code at ``frame`` can see, latest first.

    Those in the same function above the line; where there are none, those of the module. An attribute
    (``self.state``) is looked for in the whole file. The frame is the whole statement's place.
    """
    root = tree(sources, frame.file)
    if root is None or not name:
        return []
    inside = function_around(root, frame.line)
    if "." in name:
        found = [a for a in _assigned(root, name) if a[0].lineno != frame.line]
    else:
        found = [a for a in _assigned(inside, name) if a[0].lineno < frame.line] if inside else []
        if not found and not (inside and _is_argument(inside, name)):
            found = [a for a in _assigned(root, name, deep=False) if inside or a[0].lineno < frame.line]
    found.sort(key=lambda a: a[0].lineno, reverse=True)
    return [(frame_of(sources, frame.file, statement), value) for statement, value in found]


def _is_argument(function: _Function, name: str) -> bool:
    a = function.args
    every = [*a.posonlyargs, *a.args, *a.kwonlyargs, *(x for x in (a.vararg, a.kwarg) if x)]
    return any(x.arg == name for x in every)


def _assigned(root: ast.AST, name: str, deep: bool = True) -> list[tuple[ast.stmt, ast.expr]]:
    found: list[tuple[ast.stmt, ast.expr]] = []
    for node in ast.walk(root) if deep else shallow(root):
        targets: Iterable[ast.expr]
        if isinstance(node, ast.Assign):
            targets = node.targets
        elif isinstance(node, ast.AnnAssign | ast.AugAssign) and node.value is not None:
            targets = (node.target,)
        else:
            continue
        value = node.value
        if value is not None and any(_binds(t, name) for t in targets):
            found.append((node, value))
    return found


def _binds(target: ast.expr, name: str) -> bool:
    if isinstance(target, ast.Tuple | ast.List):
        return any(_binds(t, name) for t in target.elts)
    if isinstance(target, ast.Starred):
        return _binds(target.value, name)
    return (isinstance(target, ast.Name) and target.id == name) or (
        isinstance(target, ast.Attribute) and dotted(target) == name
    )


def shallow(root: ast.AST) -> Iterator[ast.AST]:
    todo = list(ast.iter_child_nodes(root))
    while todo:
        node = todo.pop()
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            todo.extend(ast.iter_child_nodes(node))


def method(sources: SourceTexts, cls: str, name: str) -> tuple[str, ast.FunctionDef] | None:
    """The file and definition of ``cls.name`` in the sources of the run; None where it is missing or not unique."""
    found = [
        (file, item)
        for file in sources
        for node in ast.walk(tree(sources, file) or ast.Module([], []))
        if isinstance(node, ast.ClassDef) and node.name == cls
        for item in node.body
        if isinstance(item, ast.FunctionDef) and item.name == name
    ]
    return found[0] if len(found) == 1 else None


def calls_named(sources: SourceTexts, *names: str) -> list[Frame]:
    """Every call in the sources of the run whose function is one of these names or ends in ``.name``."""
    found: list[Frame] = []
    for file in sources:
        for node in ast.walk(tree(sources, file) or ast.Module([], [])):
            if isinstance(node, ast.Call) and text_of(node.func).rsplit(".", 1)[-1] in names:
                found.append(frame_of(sources, file, node))
    return found


def switches_around(sources: SourceTexts, frame: Frame) -> list[Frame]:
    """``with torch.no_grad():`` blocks and decorators of that kind which enclose the frame's line, innermost first."""
    root = tree(sources, frame.file)
    if root is None:
        return []
    found: list[ast.expr] = []
    for node in ast.walk(root):
        if not getattr(node, "lineno", 0) <= frame.line <= (getattr(node, "end_lineno", 0) or 0):
            continue
        if isinstance(node, ast.With | ast.AsyncWith):
            found.extend(i.context_expr for i in node.items if _switches_off(i.context_expr))
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found.extend(d for d in node.decorator_list if _switches_off(d))
    return [frame_of(sources, frame.file, n) for n in sorted(found, key=lambda n: -n.lineno)]


def _switches_off(node: ast.expr) -> bool:
    text = text_of(node)
    name = text.split("(", 1)[0].rsplit(".", 1)[-1]
    return name in ("no_grad", "inference_mode") or text.endswith("set_grad_enabled(False)")


def contexts_named(sources: SourceTexts, stack: Iterable[Frame], name: str) -> list[Frame]:
    """The ``with torch.<name>():`` items and decorators of this name around the frames of a stack, innermost first."""
    found: list[Frame] = []
    for frame in reversed([f for f in stack if f.user]):
        root = tree(sources, frame.file)
        for node in ast.walk(root) if root is not None else ():
            if not getattr(node, "lineno", 0) <= frame.line <= (getattr(node, "end_lineno", 0) or 0):
                continue
            items: list[ast.expr] = []
            if isinstance(node, ast.With | ast.AsyncWith):
                items = [i.context_expr for i in node.items]
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                items = node.decorator_list
            named = [n for n in items if text_of(n).split("(", 1)[0].rsplit(".", 1)[-1] == name]
            found.extend(frame_of(sources, frame.file, n) for n in named)
    return found


def is_decorator(sources: SourceTexts, frame: Frame) -> bool:
    """Whether a decorator stands at the frame's line."""
    root = tree(sources, frame.file)
    return root is not None and any(
        covers(d, frame.line)
        for node in ast.walk(root)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        for d in node.decorator_list
    )


def position_of_argument(sources: SourceTexts, frame: Frame, name: str) -> int | None:
    """At which position a call passes the argument ``name`` to the function around the frame; ``self`` not counted."""
    root = tree(sources, frame.file)
    function = function_around(root, frame.line) if root else None
    if function is None:
        return None
    taken = [x.arg for x in (*function.args.posonlyargs, *function.args.args)]
    if taken[:1] in (["self"], ["cls"]):
        taken = taken[1:]
    return taken.index(name) if name in taken else None


def function_head(sources: SourceTexts, frame: Frame) -> Frame | None:
    """The first line of the function around a frame, as it is written: ``def forward(self, t, x):``."""
    root = tree(sources, frame.file)
    function = function_around(root, frame.line) if root else None
    if function is None:
        return None
    line = sources[frame.file].splitlines()[function.lineno - 1]
    end = len(line.rstrip()) + 1
    return Frame(frame.file, function.lineno, function.col_offset + 1, function.lineno, end, frame.function, True)


def methods_named(sources: SourceTexts, name: str, first: str) -> list[tuple[str, ast.FunctionDef]]:
    """Every function of this name whose first argument has the name ``first``, with its file."""
    return [
        (file, node)
        for file in sources
        for node in ast.walk(tree(sources, file) or ast.Module([], []))
        if isinstance(node, ast.FunctionDef) and node.name == name
        if [a.arg for a in node.args.args[:1]] == [first]
    ]
