"""What must hold for every fix on any source: it parses, only what was meant changed, and the layout stays.

Standard library only, so that it can be run with any Python: ``python tests/fixes/properties.py FILE…``.
"""

from __future__ import annotations

import ast
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from graphdoc.fixes.fix_kind import CannotFix
from graphdoc.fixes.kinds import build
from graphdoc.source.layout import begins_line, is_compound
from graphdoc.source.module import Source
from graphdoc.source.paths import parse_expression, same
from graphdoc.source.places import Place

MARK = "zzz"  # a name that no test source uses


def decoded(path: Path) -> tuple[str, str]:
    """A file's text with its line ends and byte order mark as they are, and its encoding."""
    raw = path.read_bytes()
    with path.open("rb") as f:
        encoding, _ = tokenize.detect_encoding(f.readline)
    encoding = "utf-8" if encoding == "utf-8-sig" else encoding
    return raw.decode(encoding), encoding


def tree(text: str) -> ast.Module:
    return ast.parse(text.removeprefix("\ufeff"))


class _Undo(ast.NodeTransformer):
    """Takes out what the fixes below put in."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.func, ast.Attribute) and node.func.attr == "detach":
            return node.func.value
        node.keywords = [k for k in node.keywords if k.arg != MARK]
        return node

    def visit_With(self, node: ast.With) -> ast.AST | list[ast.stmt]:
        self.generic_visit(node)
        return node.body if ast.unparse(node.items[0]).endswith(".no_grad()") else node

    def visit_Assign(self, node: ast.Assign) -> ast.AST | None:
        self.generic_visit(node)
        return None if ast.unparse(node.targets[0]) == f"{MARK}.h" else node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        self.generic_visit(node)
        node.values = [v for v in node.values if isinstance(v, ast.FormattedValue)]  # ``{x=}`` repeats its source
        return node


def shape(text: str) -> str:
    """The program without the fixes' own additions."""
    return ast.dump(_Undo().visit(tree(text)))


def only_lines_changed(old: str, new: str, first: int, last: int) -> bool:
    """Whether all lines outside ``first..last`` of the old text stand in the new text, in order, at both ends."""
    a, b = old.splitlines(keepends=True), new.splitlines(keepends=True)
    below = len(a) - last
    return a[: first - 1] == b[: first - 1] and (below <= 0 or a[-below:] == b[-below:])


def some(nodes: list[Any], limit: int) -> list:
    """At most ``limit`` of the nodes, evenly spread."""
    step = max(1, len(nodes) // limit)
    return nodes[::step]


def check(text: str, limit: int = 40) -> Iterator[str]:  # noqa: C901 (every kind of fix in turn)
    """Run the fixes everywhere in a source and yield the fixed texts.

    Raises:
        AssertionError: a fix changed something that it should not have.
    """
    source = Source("a.py", text)
    assert source.tree is not None
    sources = {"a.py": source}
    before = shape(text)
    whole = len(text.splitlines(keepends=True)) == len(source.lines)  # no form feeds in the way of splitlines

    def attempt(kind: str, same_shape: bool = True, **args: object) -> str | None:
        try:
            new = build(kind, sources, args)["a.py"]
        except CannotFix as e:
            assert "is not sound" not in str(e), (kind, args, e)  # noqa: PT017 (a refusal is one of two good ends)
            return None
        assert new.startswith("\ufeff") == text.startswith("\ufeff")
        assert not same_shape or shape(new) == before, (kind, args, new)
        return new

    expressions = [n for n in ast.walk(source.tree) if isinstance(n, ast.expr) and hasattr(n, "end_lineno")]
    loaded = [n for n in expressions if isinstance(getattr(n, "ctx", ast.Load()), ast.Load)]
    fixed = 0
    for node in some(loaded, limit):
        place = source.place(node)
        found = source.node_expression(place)
        in_string = any(isinstance(a, ast.JoinedStr) for a in source.node_ancestors(node))
        if not in_string:
            assert found is not None and source.span(found) == source.span(node)
            parsed = parse_expression(source.segment(node))
            assert parsed is None or same(parsed, node) or isinstance(node, ast.JoinedStr)
        new = attempt("detach_expression", place=place)
        if new is not None:
            fixed += 1
            assert not whole or only_lines_changed(text, new, place.line, place.end_line), (place, new)
            yield new
        if isinstance(node, ast.Call) and not in_string:
            longer = attempt("set_keyword", place=place, name=MARK, value="1")
            if longer is not None:
                yield longer
                again = Source("a.py", longer)
                call = next(
                    n
                    for n in ast.walk(again.tree or ast.Module([], []))
                    if isinstance(n, ast.Call) and any(k.arg == MARK for k in n.keywords)
                )
                back = build("drop_keyword", {"a.py": again}, {"place": again.place(call), "name": MARK})["a.py"]
                assert back == text or "((" in back or shape(back) == before
    assert fixed or not loaded

    for node in some([s for s in source.node_statements() if not is_compound(s)], limit):
        place = Place(
            "a.py", node.lineno, source.place(node).column, source.place(node).line, source.place(node).column + 1
        )
        new = attempt("detach_after", after=place, paths=[f"{MARK}.h"])
        if new is not None:
            last = source.place(node).end_line
            assert not whole or only_lines_changed(text, new, place.line, last)
            yield new
        new = attempt("no_grad_block", place=place)
        if new is not None and not isinstance(node, ast.Import | ast.ImportFrom):
            yield new
            if (
                begins_line(source, node)
                and not re.split("[#\r\n]", text[source.span(node)[1] :])[0].strip(" \t\f;\\")
                and text[: source.span(node)[0]].rstrip()[-1:] != "\\"  # in the line of its header
                and new.count("import torch") == text.count("import torch")
            ):
                again = Source("a.py", new)
                inner = again.node_statement(Place("a.py", node.lineno + 1))
                assert inner is not None
                bare = build("remove_switch", {"a.py": again}, {"place": again.place(inner), "name": "no_grad"})
                if text.endswith(("\n", "\r")):
                    assert bare["a.py"] == text, bare["a.py"]
        block, index = source.node_block(node) or ([], 0)
        new = attempt("delete_statement", same_shape=False, place=place)
        if new is not None:
            expected = tree(text)
            _drop(expected, node)
            assert ast.dump(expected) == ast.dump(tree(new)), (place, new)
            yield new
        if index + 1 < len(block) and not is_compound(block[index + 1]):
            new = attempt("move_statement", same_shape=False, place=place, after=source.place(block[index + 1]))
            if new is not None:
                expected = tree(text)
                _swap(expected, node)
                assert ast.dump(expected) == ast.dump(tree(new)), (place, new)
                yield new


def _drop(module: ast.Module, statement: ast.stmt) -> None:
    block, index = _locate(module, statement)
    if len(block) == 1:
        block[0] = ast.Pass()
    else:
        del block[index]


def _swap(module: ast.Module, statement: ast.stmt) -> None:
    block, index = _locate(module, statement)
    block[index], block[index + 1] = block[index + 1], block[index]


def _locate(module: ast.Module, statement: ast.stmt) -> tuple[list[ast.stmt], int]:
    for node in ast.walk(module):
        for _, value in ast.iter_fields(node):
            if not isinstance(value, list):
                continue
            for index, inner in enumerate(value):
                if isinstance(inner, ast.stmt) and (inner.lineno, inner.col_offset) == (
                    statement.lineno,
                    statement.col_offset,
                ):
                    return value, index
    raise LookupError(statement)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        count = sum(1 for _ in check(decoded(Path(name))[0], limit=10_000))
        print(f"{count:5} fixes  {name}")
