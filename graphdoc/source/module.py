"""One source file, parsed when first asked: its lines, what stands at a position and around it, who assigns what."""

from __future__ import annotations

import ast
import re
import warnings
from bisect import bisect_right
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache
from itertools import takewhile
from typing import TypeGuard, TypeVar, overload

from graphdoc.source.paths import is_path, key, last_word, pairs, parse_expression, same, targets_of
from graphdoc.source.places import Place

_One = TypeVar("_One", bound=ast.AST)
_Two = TypeVar("_Two", bound=ast.AST)
_Three = TypeVar("_Three", bound=ast.AST)

# A file's text as lines: offsets, line ends, indentation.

# Python ends a line at these three and at nothing else (str.splitlines also splits at form feeds and U+2028).
_LINE_END = re.compile(r"\r\n|\n|\r")


class Lines:
    """The lines of a text without byte order mark; all offsets in characters from 0, lines from 1."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.starts = [0]
        self._ends: list[int] = []
        counts: Counter[str] = Counter()
        for match in _LINE_END.finditer(text):
            self.starts.append(match.end())
            self._ends.append(match.start())
            counts[match.group()] += 1
        self._ends.append(len(text))
        self.newline = counts.most_common(1)[0][0] if counts else "\n"

    def __len__(self) -> int:
        return len(self.starts)

    def line_of(self, offset: int) -> int:
        return bisect_right(self.starts, offset)

    def start(self, line: int) -> int:
        return self.starts[line - 1]

    def end(self, line: int) -> int:
        """The offset behind the last character of a line, before its line end."""
        return self._ends[line - 1]

    def content(self, line: int) -> str:
        return self.text[self.start(line) : self.end(line)]

    def after(self, line: int) -> int:
        """The offset where the next line starts, or the end of the text."""
        return self.starts[line] if line < len(self.starts) else len(self.text)

    def offset(self, line: int, column: int) -> int | None:
        """The offset of a character, from line and column counted from 1; None where there is no such place."""
        if not 1 <= line <= len(self.starts) or column < 1:
            return None
        at = self.start(line) + column - 1
        return at if at <= self.end(line) else None

    def from_bytes(self, line: int, column: int) -> int:
        """The offset for the parser's position: ``column`` counts UTF-8 bytes from 0."""
        content = self.content(line)
        if not content.isascii():
            column = len(content.encode("utf-8", "surrogatepass")[:column].decode("utf-8", "replace"))
        return self.start(line) + column

    def to_bytes(self, line: int, column: int) -> int:
        """UTF-8 bytes from 0 for a column in characters from 1."""
        head = self.content(line)[: column - 1]
        return column - 1 if head.isascii() else len(head.encode("utf-8", "surrogatepass"))


# One source file, parsed when first asked: what stands at a position, what surrounds it, who assigns what.

Function = ast.FunctionDef | ast.AsyncFunctionDef
Loop = ast.For | ast.AsyncFor | ast.While
_APART = ast.BoolOp | ast.IfExp | ast.Lambda | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
BOM = "\ufeff"


_NO_TREE = ast.Module([], [])
"""What stands for a text that does not parse."""


class _Syntax:
    """What a text means, whoever asks: worked out once and shared by every ``Source`` of the same text.

    Nobody changes its nodes.
    """

    def __init__(self, code: str) -> None:
        self.code = code

    @cached_property
    def lines(self) -> Lines:
        return Lines(self.code)

    @cached_property
    def tree(self) -> ast.Module:
        """The parsed module; an empty one where it does not parse."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return ast.parse(self.code)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return _NO_TREE

    @cached_property
    def parents(self) -> dict[ast.AST, ast.AST]:
        return {child: node for node in walked(self.tree) for child in ast.iter_child_nodes(node)}

    @cached_property
    def spans(self) -> dict[tuple[int, int, int, int], ast.expr]:
        """Expressions by the parser's span; of several with one span the outermost."""
        found: dict[tuple[int, int, int, int], ast.expr] = {}
        in_strings: deque[ast.AST] = deque()
        nodes: deque[ast.AST] = deque([self.tree])
        while nodes or in_strings:
            # What stands inside f-strings comes last: before Python 3.12 it may claim the position of something else.
            node = nodes.popleft() if nodes else in_strings.popleft()
            if isinstance(node, ast.expr) and node.end_lineno is not None and node.end_col_offset is not None:
                found.setdefault((node.lineno, node.col_offset, node.end_lineno, node.end_col_offset), node)
            (in_strings if isinstance(node, ast.JoinedStr) else nodes).extend(ast.iter_child_nodes(node))
        # The interpreter lets a method call that spans lines begin at the method's name.
        for node in list(found.values()):
            access = node.func if isinstance(node, ast.Call) else node
            if isinstance(access, ast.Attribute) and access.lineno != access.end_lineno and access.end_col_offset:
                begin = access.end_col_offset - len(access.attr.encode())
                found.setdefault((access.end_lineno or 0, begin, node.end_lineno or 0, node.end_col_offset or 0), node)
        return found

    @cached_property
    def statements(self) -> list[ast.stmt]:
        """Every statement in the order of the source, outer before inner."""
        found = each(self.tree, ast.stmt)
        return sorted(found, key=lambda n: (n.lineno, n.col_offset, -(n.end_lineno or 0), -(n.end_col_offset or 0)))

    @cached_property
    def extents(self) -> list[tuple[int, int, int, ast.stmt]]:
        """Of each statement where it starts, its decorators included, where it ends, and the line of its start."""
        starts = ((self.start_of(n), n) for n in self.statements)
        return [(start, self.span(n)[1], self.lines.line_of(start), n) for start, n in starts]

    def span(self, node: ast.AST) -> tuple[int, int]:
        start = self.lines.from_bytes(node.lineno, node.col_offset)  # type: ignore[attr-defined]
        end = self.lines.from_bytes(node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]
        return start, end

    def start_of(self, statement: ast.stmt) -> int:
        decorators = getattr(statement, "decorator_list", None)
        return self.code.rindex("@", 0, self.span(decorators[0])[0]) if decorators else self.span(statement)[0]


@lru_cache(maxsize=64)
def _syntax(code: str) -> _Syntax:
    return _Syntax(code)


@lru_cache(maxsize=4096)
def walked(root: ast.AST) -> tuple[ast.AST, ...]:
    """Every node below a node of a tree that nobody changes, itself first, as ``ast.walk`` gives them."""
    return tuple(ast.walk(root))


@overload
def each(root: ast.AST | None, kind: type[_One], /) -> Iterator[_One]: ...
@overload
def each(root: ast.AST | None, kind: type[_One], other: type[_Two], /) -> Iterator[_One | _Two]: ...
@overload
def each(
    root: ast.AST | None, kind: type[_One], other: type[_Two], third: type[_Three], /
) -> Iterator[_One | _Two | _Three]: ...
def each(root: ast.AST | None, /, *kinds: type[ast.AST]) -> Iterator[ast.AST]:
    """The nodes of these kinds in a piece of code, itself included, outermost first; none of no code."""
    return (node for node in walked(root) if isinstance(node, kinds)) if root is not None else iter(())


def has(root: ast.AST | None, *kinds: type[ast.AST]) -> bool:
    """Whether a piece of code has a node of these kinds."""
    return root is not None and any(isinstance(n, kinds) for n in walked(root))


def is_within(node: ast.AST | None, root: ast.AST) -> bool:
    """Whether a node is one of a piece of code, itself included."""
    return any(n is node for n in walked(root))


class MethodCall(ast.Call):
    """The call of a method, for the type checker."""

    func: ast.Attribute


def is_method_call(node: ast.AST | None, *names: str) -> TypeGuard[MethodCall]:
    """Whether a node calls a method, of one of these names where there are any: ``loss.backward()``."""
    called = node.func if isinstance(node, ast.Call) else None
    return isinstance(called, ast.Attribute) and (not names or called.attr in names)


def keyword(call: ast.Call, *names: str) -> ast.expr | None:
    """What a call is given by a keyword of one of these names."""
    return next((k.value for k in call.keywords if k.arg in names), None)


def given_to(call: ast.Call) -> list[ast.expr]:
    """Every argument of a call, positional ones first."""
    return [*call.args, *(k.value for k in call.keywords)]


def receiver_of(call: ast.Call) -> ast.expr | None:
    """What a method is called on: ``loss`` of ``loss.backward()``; None for another call."""
    return call.func.value if isinstance(call.func, ast.Attribute) else None


def values_of(root: ast.AST | None, name: str) -> list[ast.expr]:
    """What the assignments in a piece of code give to a name, or to what is spelled so: ``x``, ``self.state``."""
    return [value for n in each(root, ast.Assign) for target, value in pairs(n) if key(target) == name]


def parsed(text: str) -> ast.Module:
    """The syntax tree of a text, the same one at every call; an empty one where it does not parse."""
    return _syntax(text.removeprefix(BOM)).tree


class Source:
    """A file's text and what it means. Every question has the answer None where there is none; nothing raises.

    Args:
        file: the name that the frames of the evidence use.
        text: the decoded text, with its line ends and byte order mark as they are.
    """

    def __init__(self, file: str, text: str) -> None:
        self.file = file
        self.text = text
        self.bom = BOM if text.startswith(BOM) else ""
        self.code = text[len(self.bom) :]
        self._syntax = _syntax(self.code)

    @property
    def lines(self) -> Lines:
        return self._syntax.lines

    @property
    def tree(self) -> ast.Module:
        """The parsed module; an empty one where it does not parse."""
        return self._syntax.tree

    @property
    def parses(self) -> bool:
        """Whether Python can read the text."""
        return self.tree is not _NO_TREE

    @property
    def parents(self) -> dict[ast.AST, ast.AST]:
        return self._syntax.parents

    # -- positions -----------------------------------------------------------------------------------------------

    def span(self, node: ast.AST) -> tuple[int, int]:
        """The offsets of a node, without decorators and without parentheses around it."""
        return self._syntax.span(node)

    def start_of(self, statement: ast.stmt) -> int:
        """Where a statement starts, its first decorator included."""
        return self._syntax.start_of(statement)

    def segment(self, node: ast.AST) -> str:
        start, end = self.span(node)
        return self.code[start:end]

    def place(self, node: ast.AST) -> Place:
        start, end = self.span(node)
        if isinstance(node, ast.stmt):
            start = self.start_of(node)
        return self._place(start, end)

    def _place(self, start: int, end: int) -> Place:
        first, last = self.lines.line_of(start), self.lines.line_of(end)
        return Place(self.file, first, start - self.lines.start(first) + 1, last, end - self.lines.start(last) + 1)

    # -- nodes, for the fixes ------------------------------------------------------------------------------------

    def node_expression(self, place: Place) -> ast.expr | None:
        """The expression with exactly this span."""
        if not place.exact or place.line > len(self.lines) or place.end_line > len(self.lines):
            return None
        wanted = (
            place.line,
            self.lines.to_bytes(place.line, place.column),
            place.end_line,
            self.lines.to_bytes(place.end_line, place.end_column),
        )
        node = self._syntax.spans.get(wanted)
        return node if node is not None and self._trusted(node) else None

    def _trusted(self, node: ast.expr) -> bool:
        """Before Python 3.12 the parser's positions inside an f-string can be off: compare with the text there."""
        if not any(isinstance(a, ast.JoinedStr) for a in self.node_ancestors(node)):
            return True
        parsed = parse_expression(self.segment(node))
        return parsed is not None and same(parsed, node)

    def node_statement(self, place: Place) -> ast.stmt | None:
        """The innermost statement that holds the place; for a bare line the first that starts on it."""
        if not 1 <= place.line <= len(self.lines):
            return None
        if place.exact:
            start = self.lines.offset(place.line, place.column)
            if start is None:
                return None
            around = [n for first, end, _, n in self._syntax.extents if first <= start < end]
            return around[-1] if around else None
        covering: ast.stmt | None = None
        for _, _, first, node in self._syntax.extents:
            if place.line in (first, node.lineno):
                return node
            if first <= place.line <= (node.end_lineno or node.lineno):
                covering = node
        return covering

    def node_statements(self) -> Iterator[ast.stmt]:
        """Every statement in the order of the source, outer before inner."""
        return iter(self._syntax.statements)

    def node_ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """The nodes around this one, innermost first."""
        above = self.parents.get(node)
        while above is not None:
            yield above
            above = self.parents.get(above)

    def node_owner(self, node: ast.AST) -> ast.stmt | None:
        """The statement that an expression belongs to (a statement belongs to itself)."""
        if isinstance(node, ast.stmt):
            return node
        return next((a for a in self.node_ancestors(node) if isinstance(a, ast.stmt)), None)

    def runs_apart(self, node: ast.expr, owner: ast.stmt) -> bool:
        """Whether an expression may be evaluated never, or more than once, within its statement."""
        between = takewhile(lambda a: a is not owner, self.node_ancestors(node))
        return any(isinstance(a, _APART) for a in between)

    def node_block(self, statement: ast.stmt) -> tuple[list[ast.stmt], int]:
        """The block that a statement stands in, and its index there; one of another file is a block of its own."""
        above = self.parents.get(statement)
        for _, value in ast.iter_fields(above) if above is not None else ():
            if isinstance(value, list) and any(v is statement for v in value):
                return value, next(i for i, v in enumerate(value) if v is statement)
        return [statement], 0

    def node_between(self, first: ast.stmt | None, second: ast.stmt | None) -> list[ast.stmt] | None:
        """The statements between two of one block; None where the second does not stand behind the first in it."""
        if first is None or second is None:
            return None
        (block, begin), (other, end) = self.node_block(first), self.node_block(second)
        return block[begin + 1 : end] if block is other and begin < end else None

    def node_in(self, place: Place, block: Sequence[ast.stmt]) -> ast.stmt | None:
        """The statement of a block that a place lies in; None where it lies in none of them."""
        at = self.node_statement(place)
        around = (at, *self.node_ancestors(at)) if at is not None else ()
        return next((s for s in block if any(s is n for n in around)), None)

    def node_function(self, node: ast.AST) -> Function | None:
        """The innermost function around a node."""
        return next((a for a in self.node_ancestors(node) if isinstance(a, Function)), None)

    def node_call_of(self, node: ast.AST | None) -> ast.Call | None:
        """The call of an expression: ``f(x)`` around ``f``."""
        above = self.parents.get(node) if node is not None else None
        return above if isinstance(above, ast.Call) and above.func is node else None

    def node_method_of(self, node: ast.AST) -> MethodCall | None:
        """The call of a method of an expression: ``x.sum()`` around ``x``."""
        above = self.parents.get(node)
        call = self.node_call_of(above)
        return call if isinstance(above, ast.Attribute) and is_method_call(call) else None

    def node_loop(self, node: ast.AST) -> Loop | None:
        """The innermost loop around a node within the same function."""
        for above in self.node_ancestors(node):
            if isinstance(above, Loop):
                return above
            if isinstance(above, Function | ast.Lambda | ast.ClassDef):
                return None
        return None

    def node_loops(self, node: ast.AST) -> list[Loop]:
        """The loops around a node within the same function, innermost first."""
        found: list[Loop] = []
        while (loop := self.node_loop(found[-1] if found else node)) is not None:
            found.append(loop)
        return found

    def node_assignments(self, path: str, within: ast.AST | None = None) -> list[ast.stmt]:
        """The statements that bind a path such as ``self.hidden``, within a function or in the whole file."""
        wanted = parse_expression(path)
        if wanted is None:
            return []
        found = [n for n in each(within or self.tree, ast.stmt) if any(same(t, wanted) for t in targets_of(n))]
        return sorted(found, key=lambda n: (n.lineno, n.col_offset))

    def operands(self, place: object) -> tuple[str, ...]:
        """The names and paths that an expression reads, as they are written, outermost ones only, in their order.

        Not those of which only the shape or the type is asked: ``x.expand_as(y)``, ``torch.zeros_like(y)``.
        """
        node = self.node_expression(Place.of(place))
        found: list[ast.expr] = []

        def visit(n: ast.AST) -> None:
            if isinstance(n, ast.Name) or (isinstance(n, ast.Attribute | ast.Subscript) and is_path(n)):
                found.append(n)
                return
            if isinstance(n, ast.Call):  # what is called is no operand; what a method is called on is one
                if is_method_call(n):
                    visit(n.func.value)
                elif not isinstance(n.func, ast.Name):
                    visit(n.func)
                for child in () if last_word(n.func).endswith(("_as", "_like")) else (*n.args, *n.keywords):
                    visit(child)
                return
            for child in ast.iter_child_nodes(n):
                visit(child)

        if node is not None:
            visit(node)
        return tuple(self.segment(n) for n in sorted(found, key=lambda n: (n.lineno, n.col_offset)))
