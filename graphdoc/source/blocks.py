"""Edits on whole statements: insert, delete, move, wrap, dedent; semicolons and one-line bodies included."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from graphdoc.source.module import Function, Source
from graphdoc.source.places import Edit
from graphdoc.source.tokens import string_lines

_COMPOUND = (
    ast.If,
    ast.For,
    ast.AsyncFor,
    ast.While,
    ast.With,
    ast.AsyncWith,
    ast.Try,
    ast.TryStar,
    ast.Match,
    ast.FunctionDef,
    ast.AsyncFunctionDef,
    ast.ClassDef,
)


class Unplaceable(ValueError):
    """The layout of the source leaves no room for this edit."""


def begins_line(source: Source, statement: ast.stmt) -> bool:
    """Whether only blanks stand before a statement on its line."""
    start = source.start_of(statement)
    return not source.code[source.lines.start(source.lines.line_of(start)) : start].strip()


def ends_line(source: Source, statement: ast.stmt) -> bool:
    """Whether only blanks, a closing semicolon or a comment follow a statement on its last line."""
    return not _rest(source, statement).split("#")[0].strip(" \t\f;\\")


def _rest(source: Source, statement: ast.stmt) -> str:
    end = source.span(statement)[1]
    return source.code[end : source.lines.end(source.lines.line_of(end))]


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
        found, above = source.node_block(statement), source.parents.get(statement)
        if found is not None and found[1]:
            statement = found[0][found[1] - 1]
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
    return isinstance(statement, _COMPOUND)


def _simple(texts: Sequence[str]) -> bool:
    return all("\n" not in t and not t.rstrip().endswith(":") and not t.startswith("@") for t in texts)


def first_statement(owner: ast.stmt) -> ast.stmt:
    """The first statement in the body of a function or loop, behind a docstring."""
    body: list[ast.stmt] = owner.body  # type: ignore[attr-defined]
    first = body[0]
    docstring = isinstance(owner, Function) and isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    return body[1] if docstring and len(body) > 1 else first


def insert_after(source: Source, statement: ast.stmt, texts: Sequence[str], once: bool = False) -> list[Edit]:
    """Insert statements (one text each, unindented) behind a statement, in its block.

    Raises:
        Unplaceable: a compound statement would have to stand in a one-line body.
    """
    end = source.span(statement)[1]
    lines = source.lines
    last = lines.line_of(end)
    block = source.node_block(statement)
    inline = not ends_line(source, statement) or (block is not None and _inline_body(source, block[0]))
    if inline:
        if not _simple(texts) or is_compound(statement):
            raise Unplaceable("no compound statement fits into a one-line body")
        return [Edit(source.file, end, end, "".join(f"; {t}" for t in texts), once)]
    indent = indent_of(source, statement)
    newline = lines.newline_at(last)
    body = newline.join(_indented(t, indent, newline) for t in texts)
    if last == len(lines):  # no line end behind the last line, and none is added
        return [Edit(source.file, lines.end(last), lines.end(last), newline + body, once)]
    return [Edit(source.file, lines.after(last), lines.after(last), body + newline, once)]


def insert_before(source: Source, statement: ast.stmt, texts: Sequence[str], once: bool = False) -> list[Edit]:
    """Insert statements before a statement (and its decorators), in its block.

    Raises:
        Unplaceable: a compound statement would have to stand in a one-line body.
    """
    start = source.start_of(statement)
    if not begins_line(source, statement):
        if not _simple(texts):
            raise Unplaceable("no compound statement fits into a one-line body")
        return [Edit(source.file, start, start, "".join(f"{t}; " for t in texts), once)]
    first = source.lines.line_of(start)
    indent, newline = indent_of(source, statement), source.lines.newline_at(first)
    body = "".join(_indented(t, indent, newline) + newline for t in texts)
    at = source.lines.start(first)
    return [Edit(source.file, at, at, body, once)]


def _indented(text: str, indent: str, newline: str) -> str:
    return newline.join(indent + line if line else line for line in text.split("\n"))


def _inline_body(source: Source, block: list[ast.stmt]) -> bool:
    """Whether a block stands on the line of the header that owns it."""
    return not begins_line(source, block[0]) and source.parents.get(block[0]) is not source.tree


def delete(source: Source, statement: ast.stmt) -> list[Edit]:
    """Remove a statement with its line and the comment on it; ``pass`` stays where the block would be empty."""
    found = source.node_block(statement)
    start, end = source.start_of(statement), source.span(statement)[1]
    lines = source.lines
    if found is None or len(found[0]) == 1:
        return [Edit(source.file, start, end, "pass")]
    block, index = found
    if begins_line(source, statement) and ends_line(source, statement):
        return [Edit(source.file, lines.start(lines.line_of(start)), lines.after(lines.line_of(end)), "")]
    if not ends_line(source, statement) and index + 1 < len(block):
        return [Edit(source.file, start, source.start_of(block[index + 1]), "")]
    return [Edit(source.file, source.span(block[index - 1])[1], end, "")]


def text_of(source: Source, statement: ast.stmt, indent: str) -> str:
    """A statement's text (with the comment behind it) as it reads at another indentation; no line end at the end.

    The first line comes without indentation, the others with it; lines inside strings stay as they are.
    """
    start, end = source.start_of(statement), source.span(statement)[1]
    lines = source.lines
    first, last = lines.line_of(start), lines.line_of(end)
    own = begins_line(source, statement) and ends_line(source, statement)
    old = indent_of(source, statement)
    kept = string_lines(source, start, end)
    parts = [source.code[start : lines.end(first) if last > first or own else end]]
    for number in range(first + 1, last + 1):
        content = lines.content(number) if number < last or own else source.code[lines.start(number) : end]
        parts.append(content if number in kept else _shift(content, old, indent))
    return lines.newline_at(first).join(parts).rstrip()


def _shift(content: str, old: str, new: str) -> str:
    if not content.strip():
        return content
    content = content.lstrip("\f")
    if content.startswith(old):
        return new + content[len(old) :]
    return content if len(new) >= len(old) else content.lstrip(" \t")


def place_text(source: Source, anchor: ast.stmt, texts: Sequence[str], after: bool) -> list[Edit]:
    """Insert finished texts (from ``text_of``, already at the anchor's indentation) after or before a statement.

    Raises:
        Unplaceable: a text with several lines would have to stand in a one-line body.
    """
    lines = source.lines
    block = source.node_block(anchor)
    whole = (ends_line if after else begins_line)(source, anchor)
    if not whole or (block is not None and _inline_body(source, block[0])):
        if any("\n" in t or "\r" in t or "#" in t for t in texts):
            raise Unplaceable("no line of its own is free there")
        return (insert_after if after else insert_before)(source, anchor, texts)
    indent = indent_of(source, anchor)
    if after:
        last = lines.line_of(source.span(anchor)[1])
        newline = lines.newline_at(last)
        body = newline.join(indent + t for t in texts)
        if last == len(lines):
            return [Edit(source.file, lines.end(last), lines.end(last), newline + body)]
        return [Edit(source.file, lines.after(last), lines.after(last), body + newline)]
    first = lines.line_of(source.start_of(anchor))
    newline = lines.newline_at(first)
    body = "".join(indent + t + newline for t in texts)
    return [Edit(source.file, lines.start(first), lines.start(first), body)]


def wrap(source: Source, statements: Sequence[ast.stmt], header: str) -> list[Edit]:
    """Put ``header`` (``with …:``) before consecutive statements of one block and indent them.

    Raises:
        Unplaceable: the statements share their lines with others in a way that cannot be taken apart.
    """
    first, last = statements[0], statements[-1]
    lines, file = source.lines, source.file
    unit = indent_unit(source, first)
    indent = indent_of(source, first)
    found = source.node_block(first)
    if found is None:
        raise Unplaceable("the statement stands in no block")
    if begins_line(source, first) and ends_line(source, last):
        start, end = source.start_of(first), source.span(last)[1]
        top, bottom = lines.line_of(start), lines.line_of(end)
        kept = string_lines(source, start, end)
        edits = [Edit(file, lines.start(top), lines.start(top), indent + header + lines.newline_at(top))]
        for number in range(top, bottom + 1):
            if number not in kept and lines.content(number).strip():
                margin = _margin(source, number)[0]
                edits.append(Edit(file, margin, margin, unit))
        return edits
    # Statements share a line: each of that line gets its own.
    line = lines.line_of(source.start_of(first))
    if lines.line_of(source.span(last)[1]) != line:
        raise Unplaceable("the statements share lines with others")
    block, _ = found
    row = [s for s in block if lines.line_of(source.start_of(s)) == line]
    if any(lines.line_of(source.span(s)[1]) != line for s in row) or any(is_compound(s) for s in row):
        raise Unplaceable("the statements share lines with others")
    newline = lines.newline_at(line)
    body = indent + unit if _inline_body(source, block) else indent
    edits, at = [], None
    for statement in row:
        start, end = source.span(statement)
        inside = statement in statements
        lead = (body + header + newline if statement is first else "") + body + (unit if inside else "")
        if at is None:
            begin = start
            if _inline_body(source, block):
                begin = len(source.code[:start].rstrip(" \t"))
                lead = newline + lead
            else:
                lead = lead[len(indent) :]
            edits.append(Edit(file, begin, start, lead))
        else:
            edits.append(Edit(file, at, start, newline + lead))
        at = end
    return edits


def unwrap(source: Source, statement: ast.stmt, body: Sequence[ast.stmt] | None = None) -> list[Edit]:
    """Replace a compound statement by (one of) its bodies, dedented; the header goes.

    Raises:
        Unplaceable: the body cannot stand where the statement stands.
    """
    lines, file = source.lines, source.file
    inner = list(body if body is not None else statement.body)  # type: ignore[attr-defined]
    start, end = source.start_of(statement), source.span(statement)[1]
    first, last = source.start_of(inner[0]), source.span(inner[-1])[1]
    if not begins_line(source, inner[0]):
        edits = [Edit(file, start, first, "")]
    elif not begins_line(source, statement):
        raise Unplaceable("the block shares its line with others")
    else:
        # Comments between the header and the body belong to the body.
        top = lines.line_of(first)
        while top - 1 > lines.line_of(start) and lines.content(top - 1).lstrip().startswith("#"):
            top -= 1
        old, new = indent_of(source, inner[0]), indent_of(source, statement)
        edits = [Edit(file, lines.start(lines.line_of(start)), lines.start(top), "")]
        kept = string_lines(source, first, last)
        for number in range(top, lines.line_of(last) + 1):
            content = lines.content(number)
            if number not in kept and content.strip():
                begin, stop = _margin(source, number)
                blank = source.code[begin:stop]
                # A continuation line may stand further left than the block.
                rest = blank.removeprefix(old) if blank.startswith(old) else blank.removeprefix(old[len(new) :])
                edits.append(Edit(file, begin, stop, new + rest if blank.startswith(old) else rest))
    if last < end:  # an else branch behind the kept body
        edits.append(Edit(file, lines.end(lines.line_of(last)), lines.end(lines.line_of(end)), ""))
    return edits
