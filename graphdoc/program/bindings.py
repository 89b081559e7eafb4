"""Names in the source of a run: who binds them, what flows from one to another, which flags are handed on."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import TypeVar, overload

from graphdoc.evidence import Frame, SourceTexts
from graphdoc.source.module import Function, Loop, Source, each, given_to, keyword, parsed, walked
from graphdoc.source.paths import called, covers, elements, is_name, last_word, only, path_of, plain_names, targets_of
from graphdoc.source.places import Place
from graphdoc.source.scopes import computes, given_by, own_nodes, parameters

_One = TypeVar("_One", bound=ast.AST)
_Two = TypeVar("_Two", bound=ast.AST)
_Three = TypeVar("_Three", bound=ast.AST)


def tree(sources: SourceTexts, file: str) -> ast.Module:
    """The syntax tree of a file of the run; an empty one where its source is missing or does not parse."""
    return parsed(sources.get(file, ""))


def tree_at(sources: SourceTexts, frame: Frame | None) -> ast.Module:
    """The syntax tree of the file of a place; an empty one where there is no place."""
    return tree(sources, frame.file if frame is not None else "")


def every_node(sources: SourceTexts, file: str) -> tuple[ast.AST, ...]:
    """All nodes of a file of the run, as ``ast.walk`` gives them; only an empty module where it does not parse."""
    return walked(tree(sources, file))


@overload
def everywhere(sources: SourceTexts, /) -> Iterator[tuple[str, ast.AST]]: ...
@overload
def everywhere(sources: SourceTexts, kind: type[_One], /) -> Iterator[tuple[str, _One]]: ...
@overload
def everywhere(
    sources: SourceTexts, kind: type[_One], other: type[_Two], third: type[_Three] = ..., /
) -> Iterator[tuple[str, _One | _Two | _Three]]: ...
def everywhere(sources: SourceTexts, /, *kinds: type[ast.AST]) -> Iterator[tuple[str, ast.AST]]:
    """The nodes of these kinds, or all, in the files of a run, each with its file."""
    for file in sources:
        for node in every_node(sources, file):
            if not kinds or isinstance(node, kinds):
                yield file, node


def frame_of(sources: SourceTexts, at: str | Frame, node: ast.AST, function: str = "") -> Frame:
    """A syntax node as a frame, columns in characters (Python counts them in UTF-8 bytes). ``at`` is its file, or a
    place in the same file and function."""
    file, function = (at, function) if isinstance(at, str) else (at.file, at.function)
    lines = Source(file, sources[file]).lines
    line = int(getattr(node, "lineno", 1))
    end = int(getattr(node, "end_lineno", None) or line)

    def column(number: int, offset: int) -> int:
        return lines.from_bytes(number, offset) - lines.start(number) + 1 if 0 < number <= len(lines) else 1

    start, stop = getattr(node, "col_offset", 0), getattr(node, "end_col_offset", None) or 0
    return Frame(file, line, column(line, start), end, column(end, stop), function, True)


def function_around(root: ast.AST, line: int) -> Function | None:
    """The innermost ``def`` that contains the line."""
    return next(iter(_functions_around(root, line)), None)


def _functions_around(root: ast.AST, line: int) -> list[Function]:
    """Every ``def`` that contains the line, innermost first."""
    around = [n for n in _definitions(root)[0] if covers(n, line)]
    return sorted(around, key=lambda n: n.lineno, reverse=True)


def scope_around(root: ast.Module, line: int) -> Function | ast.Module:
    """The innermost ``def`` that contains the line, or the module."""
    return function_around(root, line) or root


def source_of(sources: SourceTexts, file: str) -> Source:
    """A file of the run; an empty one where its source is missing."""
    return Source(file, sources.get(file, ""))


def source_at(sources: SourceTexts, frame: Frame | None) -> Source:
    """The file of a place; an empty one where there is no place, or its source is missing."""
    return source_of(sources, frame.file) if frame is not None else Source("", "")


def statement_at(sources: SourceTexts, frame: Frame | None) -> ast.stmt | None:
    """The innermost statement at a place; None where there is none, and without a place or its source."""
    return source_at(sources, frame).node_statement(Place.of(frame)) if frame is not None else None


def expression_at(sources: SourceTexts, frame: Frame | None) -> ast.expr | None:
    """The expression that stands exactly at a place; None where there is none, and without a place or its source."""
    return source_at(sources, frame).node_expression(Place.of(frame)) if frame is not None else None


def function_at(sources: SourceTexts, frame: Frame | None) -> Function | None:
    """The innermost ``def`` around a place; None outside of functions, and where there is no place or no source."""
    return function_around(tree(sources, frame.file), frame.line) if frame is not None else None


def scope_at(sources: SourceTexts, frame: Frame | None) -> Function | ast.Module:
    """The innermost ``def`` around a place, outside of functions the module; an empty one without a place."""
    return function_at(sources, frame) or tree_at(sources, frame)


@lru_cache(maxsize=256)
def _definitions(root: ast.AST) -> tuple[list[Function], list[ast.ClassDef]]:
    """The functions and classes below a node, worked out once: most questions begin with the one around a line."""
    nodes = list(walked(root))
    return [n for n in nodes if isinstance(n, Function)], [n for n in nodes if isinstance(n, ast.ClassDef)]


def class_around(root: ast.AST, line: int) -> ast.ClassDef | None:
    """The innermost class that contains the line."""
    around = (n for n in _definitions(root)[1] if covers(n, line))
    return max(around, key=lambda n: n.lineno, default=None)


def first_line(function: Function) -> int:
    """The line on which a function begins, its decorators included."""
    return min([function.lineno, *(d.lineno for d in function.decorator_list)])


def call_at(sources: SourceTexts, frame: Frame | None) -> ast.Call | None:
    """The outermost call that begins on the frame's line, or exactly at its columns where they are known."""
    if frame is None:
        return None
    calls = [n for n in each(tree_at(sources, frame), ast.Call) if covers(n, frame.line)]
    wanted = (frame.line, frame.column, frame.end_column)
    places = ((c, frame_of(sources, frame, c)) for c in calls if frame.column > 0)
    exact = (c for c, at in places if (at.line, at.column, at.end_column) == wanted)
    return next(exact, None) or next((c for c in calls if c.lineno == frame.line), calls[0] if calls else None)


def argument(call: ast.Call | None, position: int, keyword: str) -> ast.expr | None:
    """An argument of a call by position or keyword; None where a ``*rest`` before it may give others."""
    given = call.args[: position + 1] if call is not None else []
    named = next((k.value for k in call.keywords if k.arg == keyword), None) if call is not None else None
    known = len(given) > position and not any(isinstance(a, ast.Starred) for a in given)
    return named or (given[position] if known else None)


def text_of(node: ast.AST | None) -> str:
    """The node as Python source, normalised; empty for None."""
    return ast.unparse(node) if node is not None else ""


def names_in(node: ast.AST | None) -> list[str]:
    """Names and dotted names that an expression reads, in the order in which they stand, each once."""
    found: dict[str, None] = {}
    todo: list[ast.AST] = [node] if node is not None else []
    while todo:
        n = todo.pop(0)
        if isinstance(n, ast.expr) and (path := path_of(n)):
            found.setdefault(path)
        else:
            todo = list(ast.iter_child_nodes(n)) + todo
    return list(found)


def assignments(sources: SourceTexts, frame: Frame, name: str) -> list[tuple[Frame, ast.expr]]:
    """The assignments to ``name`` that the code at ``frame`` can see, latest first.

    Those in the same function above the line; where there are none, those of the functions around it, then those of
    the module. An attribute (``self.state``) and an entry (``held["state"]``) are looked for in the whole file. The
    frame is the whole statement's place.
    """
    root = tree(sources, frame.file)
    if not name:
        return []
    around = _functions_around(root, frame.line)
    if not name.isidentifier():
        found = [a for a in _assigned(root, name) if a[0].lineno != frame.line]
    else:
        found = [a for a in _assigned(around[0], name) if a[0].lineno < frame.line] if around else []
        for function in around[1:]:
            if found or name in parameters(around[0]):
                break
            around = around[1:]
            found = _assigned(function, name, deep=False)
        if not found and not (around and name in parameters(around[0])):
            found = [a for a in _assigned(root, name, deep=False) if around or a[0].lineno < frame.line]
    found.sort(key=lambda a: a[0].lineno, reverse=True)
    return [(frame_of(sources, frame.file, statement), value) for statement, value in found]


def _assigned(root: ast.AST, name: str, deep: bool = True) -> list[tuple[ast.stmt, ast.expr]]:
    kinds = ast.Assign | ast.AnnAssign | ast.AugAssign
    found = [n for n in (walked(root) if deep else own_nodes(root)) if isinstance(n, kinds)]
    return [(n, n.value) for n in found if n.value is not None and name in map(path_of, targets_of(n))]


def method(sources: SourceTexts, cls: str, name: str) -> tuple[str, ast.FunctionDef] | None:
    """The file and definition of ``cls.name`` in the sources of the run; None where it is missing or not unique."""
    classes = [(file, methods_of(node)) for file, node in everywhere(sources, ast.ClassDef) if node.name == cls]
    return only([(file, methods[name]) for file, methods in classes if name in methods])


def methods_of(cls: ast.ClassDef | None) -> dict[str, ast.FunctionDef]:
    """The methods of a class by their names; none without a class."""
    return {n.name: n for n in (cls.body if cls is not None else ()) if isinstance(n, ast.FunctionDef)}


def calls_named(sources: SourceTexts, *names: str) -> list[Frame]:
    """Every call in the sources of the run whose function is one of these names or ends in ``.name``."""
    calls = everywhere(sources, ast.Call)
    return [frame_of(sources, file, node) for file, node in calls if last_word(node.func) in names]


Entered = tuple[Frame, ast.stmt]
"""The item of a ``with`` statement, or the decorator of a function, and the statement that it governs."""


def entered(sources: SourceTexts, file: str, *names: str) -> list[Entered]:
    """The items and decorators in a file that have one of these last names, called or not."""
    found: list[Entered] = []
    for node in each(tree(sources, file), ast.stmt):
        items = [i.context_expr for i in node.items] if isinstance(node, ast.With | ast.AsyncWith) else []
        name = getattr(node, "name", "")
        items += node.decorator_list if isinstance(node, Function) else []
        found += [(frame_of(sources, file, n, name), node) for n in items if _context(n) in names]
    return found


def _context(node: ast.expr) -> str:
    """The last name of a context or decorator, called or not; ``no_grad`` also for what does the same."""
    off = text_of(node).endswith("set_grad_enabled(False)")
    return "no_grad" if off else called(node) or last_word(node)


def contexts_around(sources: SourceTexts, stack: Iterable[Frame], *names: str) -> list[Frame]:
    """Those around the frames of a stack that have one of these names, or switch recording off; innermost first."""
    names = names or ("no_grad", "inference_mode")
    users = reversed([f for f in stack if f.user])
    around = ([at for at, node in entered(sources, f.file, *names) if covers(node, f.line)] for f in users)
    return [at for found in around for at in sorted(found, key=lambda at: -at.line)]


def given_as(sources: SourceTexts, frame: Frame, caller: Frame, name: str) -> ast.expr | None:
    """What the call at ``caller`` gives to the function around ``frame`` as its argument ``name``."""
    function, call = function_at(sources, frame), call_at(sources, caller)
    return given_by(function, call).get(name) if function is not None and call is not None else None


def methods_named(sources: SourceTexts, name: str, first: str) -> list[tuple[str, ast.FunctionDef]]:
    """Every function of this name whose first argument has the name ``first``, with its file."""
    named = ((file, n) for file, n in everywhere(sources, ast.FunctionDef) if n.name == name)
    return [(file, n) for file, n in named if [a.arg for a in n.args.args[:1]] == [first]]


# Whether a value flows from one place of the source to another, through the assignments of one function.

MOST_STEPS = 60
"""Assignments that are followed from one place."""
_BRANCHING = (ast.If, ast.Try, ast.For, ast.AsyncFor, ast.While, ast.ExceptHandler, ast.match_case)
Arm = tuple[ast.AST, str]
"""A statement that need not run all of its blocks, and which of them."""
Bound = tuple[ast.stmt, ast.expr, bool]
"""A statement that gives a name a value, that value, and whether the name keeps what it had as well."""


class Flow(Enum):
    """Whether a value flows there."""

    YES = "what is computed at the one place enters the other, on some way through the function"
    NO = "nothing at the second place is made of it"
    UNKNOWN = "it may: by another function, by an attribute, or by the loop's last round"


def flow(sources: SourceTexts, source: Frame, sink: Frame) -> Flow:
    """Whether what is computed at ``source`` enters what is computed at ``sink``, further down in the same function."""
    scope = function_at(sources, source)
    # At one place only by a loop, or by a call of the same function.
    if source.file != sink.file or source.start == sink.start or scope is not function_at(sources, sink):
        return Flow.UNKNOWN
    root = tree(sources, source.file)
    kinds = ast.Expr | ast.Assign | ast.AugAssign | ast.AnnAssign | ast.Return
    read = [n.value for n in own_nodes(scope or root) if isinstance(n, kinds) and covers(n, sink.line)]
    found = {flow_into(sources, scope or root, value, source) for value in read if value is not None}
    return next((f for f in (Flow.YES, Flow.UNKNOWN) if f in found), Flow.NO if found else Flow.UNKNOWN)


def flow_into(sources: SourceTexts, scope: ast.AST, value: ast.expr, source: Frame) -> Flow:
    """The same for an expression ``value`` of the function ``scope``, in the file of ``source``."""
    behind = made_of(scope, value, lambda e: _covers(frame_of(sources, source.file, e), source))
    if behind.found:
        return Flow.YES
    return Flow.NO if behind.whole else Flow.UNKNOWN


@dataclass(frozen=True)
class Behind:
    """What an expression is made of: the expressions behind it, itself first, by the assignments of its function.

    ``found`` are those that were looked for, behind which nothing was followed; ``whole`` says that nothing is left
    that could flow in as well, by an attribute, a loop's last round or in more steps.
    """

    expressions: tuple[ast.expr, ...]
    found: tuple[ast.expr, ...]
    whole: bool


def made_of(
    scope: ast.AST,
    value: ast.expr,
    wanted: Callable[[ast.expr], bool] = lambda _: False,
    most: int = MOST_STEPS,
    ends: Collection[str] | None = None,
) -> Behind:
    """Follows an expression of the function ``scope`` back through at most so many assignments on one way.

    One that is ``wanted`` is not followed further; where ``ends`` names what it is wanted for, its other names are.
    """
    blocks = _Blocks(scope)
    todo: list[tuple[ast.expr, int]] = [(value, 0)]
    seen: set[tuple[str, int]] = set()
    every: list[ast.expr] = []
    found: list[ast.expr] = []
    doubt = False
    while todo and len(every) < MOST_STEPS:
        expression, level = todo.pop(0)
        every.append(expression)
        if wanted(expression):
            found.append(expression)
            if ends is None:
                continue
        for name in names_in(expression):
            if any(path in (ends or ()) for path in _paths(name)) or (name, expression.lineno) in seen:
                continue
            seen.add((name, expression.lineno))
            given = False
            for path in _paths(name):
                values, later = blocks.values_of(path, expression.lineno)
                doubt, given = doubt or later or (bool(values) and level >= most), given or bool(values)
                todo += [(v, level + 1) for v in values if level < most]
            doubt = doubt or ("." in name and not given)
    return Behind(tuple(every), tuple(found), not (doubt or todo))


def _paths(name: str) -> list[str]:
    """``loss.sum`` is made of what ``loss`` was given as well as of what was given to it by that path."""
    parts = name.split(".")
    return [".".join(parts[:end]) for end in range(len(parts), 0, -1)]


class _Blocks:
    """The statements of one function with the blocks that they stand in."""

    def __init__(self, scope: ast.AST) -> None:
        self.bound: list[tuple[str, Bound]] = []
        self.above: dict[ast.stmt, frozenset[Arm]] = {}
        self._walk(scope, frozenset())
        self.bound.sort(key=lambda b: b[1][0].lineno)

    def _walk(self, node: ast.AST, above: frozenset[Arm]) -> None:
        for name, content in ast.iter_fields(node):
            branch = above | {(node, name)} if isinstance(node, _BRANCHING) else above
            for child in content if isinstance(content, list) else ():
                if isinstance(child, ast.stmt) and not isinstance(child, Function | ast.ClassDef):
                    self.above[child] = branch
                    self._bind(child)
                if child in self.above or isinstance(child, ast.ExceptHandler | ast.match_case):
                    self._walk(child, branch)

    def _bind(self, statement: ast.stmt) -> None:
        if isinstance(statement, ast.Assign | ast.AugAssign | ast.AnnAssign | ast.For):
            value = statement.iter if isinstance(statement, ast.For) else statement.value
            for target in statement.targets if isinstance(statement, ast.Assign) else [statement.target]:
                if value is not None:
                    self._pair(statement, target, value, isinstance(statement, ast.AugAssign))

    def _pair(self, statement: ast.stmt, target: ast.expr, value: ast.expr, kept: bool) -> None:
        parts, values = elements(target), elements(value)
        if parts or isinstance(target, ast.Tuple | ast.List):
            matched = len(values) == len(parts) and not isinstance(statement, ast.For)
            for i, one in enumerate(parts):
                self._pair(statement, one, values[i] if matched else value, kept)
        elif isinstance(target, ast.Subscript):
            self._pair(statement, target.value, value, True)
        else:
            self.bound += [(name, (statement, value, kept)) for name in names_in(target)]

    def values_of(self, name: str, line: int) -> tuple[list[ast.expr], bool]:
        """What the name can have been given above a line, and whether a loop around the line gives it more below."""
        here = max((s for s in self.above if s.lineno <= line), key=lambda s: s.lineno, default=None)
        around = self.above[here] if here is not None else frozenset()
        of_name = [b for n, b in self.bound if n == name]
        values: list[ast.expr] = []
        for statement, value, kept in reversed([b for b in of_name if b[0].lineno < line]):
            values.append(value)
            if not kept and self.above[statement] <= around:
                break  # whatever it had before is gone on every way to here
        ends = [n.end_lineno or 0 for n, _ in around if isinstance(n, Loop)]
        later = any(line <= s.lineno <= max(ends, default=0) for s, _, _ in of_name)
        return values, later


def _covers(place: Frame, source: Frame) -> bool:
    """Whether a place contains another one; of one without columns the line decides."""
    of_one_line = source.column > 0 and place.line == place.end_line == source.line
    within = place.column <= source.column and max(source.end_column, source.column) <= place.end_column
    return place.line <= source.line <= (place.end_line or place.line) and (within or not of_one_line)


# A flag that a function hands on to a call: where the program decides on it.


def decided_at(sources: SourceTexts, stack: Sequence[Frame], flag: str) -> tuple[Frame, str] | None:
    """The user's call that decides on a flag of the innermost call of his on ``stack``, and the flag's name there.

    Mostly that call itself. Where it gets the flag from a parameter of the function around it, or takes what that
    function is given by ``**``, the call of that function; None where the source does not tell.
    """
    for frame in (f for f in reversed(stack) if f.user):
        call = call_at(sources, frame)
        if call is None or not flag:
            return None
        given = keyword(call, flag)
        others = [k.value for k in call.keywords if k.arg is None]
        if isinstance(given, ast.Constant) or (given is None and not others):
            return (frame, flag) if not any(isinstance(a, ast.Starred) for a in call.args) else None
        function = function_at(sources, frame)
        flag = _handed(function, given, others, flag) if function is not None else ""
    return None


def _handed(function: Function, given: ast.expr | None, others: list[ast.expr], flag: str) -> str:
    """The keyword by which the caller of a function gives the flag; empty where it is another thing, or has to be given
    by its position."""
    known = function.args
    optional = {a.arg for a in known.kwonlyargs} | {a.arg for a in known.args[len(known.args) - len(known.defaults) :]}
    if isinstance(given, ast.Name):
        return given.id if given.id in optional and given.id not in plain_names(function, ast.Store) else ""
    rest = known.kwarg.arg if known.kwarg is not None else ""
    whole = len(others) == 1 and is_name(others[0], rest)
    other = flag in {*parameters(function)} - {rest} or rest in plain_names(function, ast.Store)
    return flag if given is None and whole and not other else ""


# Whether a program fills one container over and over, or gives its name another one each time.

_READING = frozenset({"len", "list", "tuple", "sum", "zip", "enumerate", "print", "sorted", "reversed"})
"""Functions that read a container, as those of libraries of numbers do."""


def is_one_container(sources: SourceTexts, file: str, path: str) -> bool:
    """Whether nothing but the start of the program binds a list or dictionary of this last name, and it is handed on:
    others hold the same one, under names of their own, and another in its place would be unknown to them. A plain name
    is one of its ``file`` alone."""
    name = path.rpartition(".")[2]
    roots = [tree(sources, f) for f in (sources if "." in path else [file])]
    late = any(names_it(t, name) for root in roots for t in bound_late(root))
    return not late and any(names_it(v, name) for root in roots for v in _handed_on(root))


def _handed_on(root: ast.Module) -> Iterator[ast.expr]:
    """What is given to a function or class of the program as it is, or to another name."""
    for node in walked(root):
        if isinstance(node, ast.Call):
            yield from given_to(node) if text_of(node.func) not in _READING and not computes(root, node.func) else ()
        elif isinstance(node, ast.Assign):
            yield node.value


def bound_late(root: ast.AST, names: bool = True) -> Iterator[ast.expr]:
    """What is bound in loops, and in functions other than ``__init__``; outside of loops plain ``names``, too."""
    for node in walked(root):
        loop = isinstance(node, ast.For | ast.While)
        if loop or (isinstance(node, Function) and node.name != "__init__"):
            every = (t for n in walked(node) for t in targets_of(n))
            yield from (t for t in every if loop or names or not isinstance(t, ast.Name))


def names_it(node: ast.expr, name: str, owner: str = "") -> bool:
    """Whether an expression is an attribute of this name, whatever it belongs to; the name itself without an owner."""
    return node.attr == name if isinstance(node, ast.Attribute) else not owner and is_name(node, name)
