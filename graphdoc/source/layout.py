"""How statements are laid out: lines, indentation, bodies on the line of their header."""

from __future__ import annotations

import ast

from graphdoc.source.module import Function, Source


class Unplaceable(ValueError):
    """The layout of the source leaves no room for this edit."""


def begins_line(source: Source, statement: ast.stmt) -> bool:
    """Whether only blanks stand before a statement on its line."""
    start = source.start_of(statement)
    return not source.code[source.lines.start(source.lines.line_of(start)) : start].strip()


def comment_above(source: Source, statement: ast.stmt) -> int:
    """The first line of the comment directly above a statement and indented as it is; its own where there is none."""
    lines = source.lines
    line = lines.line_of(source.start_of(statement))
    margin = lines.content(line)[: _margin(source, line)[1] - lines.start(line)]
    block, index = source.node_block(statement)
    above = block[index - 1].end_lineno if index else getattr(source.parents.get(statement), "lineno", 0)
    while line - 1 > (above or 0) and lines.content(line - 1).startswith(f"{margin}#"):
        line -= 1
    return line


def paragraph(source: Source, statement: ast.stmt) -> list[ast.stmt]:
    """A statement and those that follow it in its block up to the next blank line or comment."""
    block, index = source.node_block(statement)
    for end, other in enumerate(block[index + 1 :], index + 1):
        line = source.lines.line_of(source.start_of(other))
        if comment_above(source, other) < line or not source.lines.content(line - 1).strip():
            return block[index:end]
    return block[index:]


def _margin(source: Source, line: int) -> tuple[int, int]:
    """Where a line's indentation starts (behind a form feed, which starts the count anew) and ends."""
    content = source.lines.content(line)
    blank = len(content) - len(content.lstrip(" \t\f"))
    start = source.lines.start(line)
    return start + content.rfind("\f", 0, blank) + 1, start + blank


def indent_of(source: Source, statement: ast.stmt) -> str:
    """The indentation of the line on which a statement (or what it shares the line with) begins."""
    while not begins_line(source, statement):
        # The line may begin with the end of an earlier statement: look at where that one begins.
        (block, index), above = source.node_block(statement), source.parents.get(statement)
        if index:
            statement = block[index - 1]
        elif isinstance(above, ast.stmt):
            statement = above
        else:
            break
    start, end = _margin(source, source.lines.line_of(source.start_of(statement)))
    return source.code[start:end]


def indent_unit(source: Source, statement: ast.AST) -> str:
    """How far a block is indented here: as in the nearest block around the statement, else as in the file."""
    nearby = [statement, *source.node_ancestors(statement), *source.node_statements()]
    for node in nearby:
        body = getattr(node, "body", None)
        if isinstance(node, ast.stmt) and isinstance(body, list) and body and begins_line(source, body[0]):
            outer, inner = indent_of(source, node), indent_of(source, body[0])
            if len(inner) > len(outer) and inner.startswith(outer):
                return inner[len(outer) :]
    return "    "


def is_compound(statement: ast.stmt) -> bool:
    """Whether a statement holds others."""
    return isinstance(statement, ast.Match) or hasattr(statement, "body")


def first_statement(owner: ast.stmt) -> ast.stmt:
    """The first statement in the body of a function or loop, behind a docstring."""
    body: list[ast.stmt] = owner.body  # type: ignore[attr-defined]
    first = body[0]
    docstring = isinstance(owner, Function) and isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    return body[1] if docstring and len(body) > 1 else first
