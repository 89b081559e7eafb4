"""What the tree does not say: grouping parentheses around an expression, and lines that lie inside a string."""

from __future__ import annotations

import ast
import io
import keyword
import tokenize
from collections.abc import Iterator

from graphdoc.source.module import Source

Token = tuple[int, str, int, int]  # kind, text, start and end offset

_SKIPPED = {tokenize.COMMENT, tokenize.NL}
_STRING_STARTS = {tokenize.STRING, getattr(tokenize, "FSTRING_START", -1)}
_STRING_ENDS = {tokenize.STRING, getattr(tokenize, "FSTRING_END", -1)}


def tokens(source: Source, start: int, end: int | None = None) -> Iterator[Token]:
    """Tokens from an offset at which a statement starts; ends quietly at what cannot be tokenized."""
    lines = source.lines
    stop = len(source.code) if end is None else end
    first = lines.line_of(start)
    shift = start - lines.start(first)
    text = [lines.content(first)[shift:], *(lines.content(n) for n in range(first + 1, lines.line_of(stop) + 1))]
    reader = io.StringIO("\n".join(text) + "\n").readline
    try:
        for token in tokenize.generate_tokens(reader):
            (row, column), (end_row, end_column) = token.start, token.end
            if first + end_row - 1 > len(lines) or first + row - 1 > len(lines):
                return
            begin = lines.start(first + row - 1) + column + (shift if row == 1 else 0)
            if begin >= stop:
                return
            finish = lines.start(first + end_row - 1) + end_column + (shift if end_row == 1 else 0)
            yield token.type, token.string, begin, finish
    except (tokenize.TokenError, SyntaxError):
        return


def grouping(source: Source, node: ast.expr) -> list[tuple[int, int]]:
    """The pairs of parentheses that only group this expression, innermost first, as (start of ``(``, end of ``)``)."""
    begin, finish = source.span(node)
    owner = next((a for a in source.node_ancestors(node) if isinstance(a, ast.stmt | ast.ExceptHandler)), None)
    if owner is None:
        return []
    origin = source.start_of(owner) if isinstance(owner, ast.stmt) else source.span(owner)[0]
    before: list[Token] = []
    closing: list[int] = []
    for token in tokens(source, origin):
        if token[0] in _SKIPPED:
            continue
        if token[3] <= begin:
            before.append(token)
        elif token[2] >= finish:
            if token[1] != ")":
                break
            closing.append(token[3])
    found: list[tuple[int, int]] = []
    for close in closing:
        if not before or before[-1][1] != "(":
            break
        opening = before.pop()
        if before and _can_be_called(before[-1]):
            break
        found.append((opening[2], close))
    return found


def _can_be_called(token: Token) -> bool:
    kind, text, _, _ = token
    if kind == tokenize.NAME:
        return not keyword.iskeyword(text) or text in ("None", "True", "False")
    return text in (")", "]", "}") or kind in _STRING_ENDS


def outer_span(source: Source, node: ast.expr) -> tuple[int, int]:
    """The offsets of an expression together with all parentheses that only group it."""
    pairs = grouping(source, node)
    return pairs[-1] if pairs else source.span(node)


def string_lines(source: Source, start: int, end: int) -> set[int]:
    """The lines between two offsets that begin inside a string: their leading blanks are part of its value."""
    found: set[int] = set()
    open_at: list[int] = []
    for kind, _, begin, finish in tokens(source, start, end):
        if kind in _STRING_STARTS:
            open_at.append(begin)
        if kind in _STRING_ENDS and open_at:
            first = source.lines.line_of(open_at.pop())
            found.update(range(first + 1, source.lines.line_of(finish) + 1))
    return found
