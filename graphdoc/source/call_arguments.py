"""Edits on the arguments of one call: add, replace, drop; trailing commas, comments and layout stay."""

from __future__ import annotations

import ast
from collections.abc import Callable

from graphdoc.source.module import Source
from graphdoc.source.places import Edit
from graphdoc.source.tokens import outer_span


def argument_spans(source: Source, node: ast.Call) -> list[tuple[int, int, str | None]]:
    """The arguments in order of the source as (start, end, keyword), parentheses and stars included."""
    found: list[tuple[int, int, str | None]] = []
    for argument in node.args:
        value = argument.value if isinstance(argument, ast.Starred) else argument
        start, end = outer_span(source, value)
        found.append((source.span(argument)[0] if value is not argument else start, end, None))
    for keyword in node.keywords:
        found.append((source.span(keyword)[0], outer_span(source, keyword.value)[1], keyword.arg))
    return sorted(found)


def add_argument(source: Source, node: ast.Call, text: str) -> list[Edit]:
    """Put an argument behind the others."""
    spans = argument_spans(source, node)
    end = source.span(node)[1] - 1
    if not spans:
        return [Edit(source.file, end, end, text)]
    last = node.args[-1] if node.args and not node.keywords else None
    if isinstance(last, ast.GeneratorExp) and source.span(last)[1] == end + 1:
        # ``f(x for x in y)`` shares its parentheses with the generator.
        start = source.span(last)[0]
        return [Edit(source.file, start, start, "("), Edit(source.file, end, end, f"), {text}")]
    at = spans[-1][1]
    return [Edit(source.file, at, at, f", {text}")]


def set_keyword(source: Source, node: ast.Call, name: str, value: str) -> list[Edit]:
    """Give a call this keyword argument; a value that it has is replaced, the same value gives no edit."""
    for keyword in node.keywords:
        if keyword.arg == name:
            start, end = outer_span(source, keyword.value)
            return [] if source.code[start:end] == value else [Edit(source.file, start, end, value)]
    return add_argument(source, node, f"{name}={value}")


def drop_arguments(source: Source, node: ast.Call, unwanted: Callable[[int, str | None], bool]) -> list[Edit]:
    """Remove the arguments for whose index and keyword ``unwanted`` is true; none of them gives no edit."""
    spans = argument_spans(source, node)
    edits: list[Edit] = []
    kept: int | None = None  # the end of the last argument that stays
    for index, (_, end, name) in enumerate(spans):
        if not unwanted(index, name):
            kept = end
            continue
        edits.append(_removal(source, spans, index, kept if index and kept == spans[index - 1][1] else None))
    return edits


def without_flag(source: Source, node: ast.Call) -> list[Edit]:
    """Take ``retain_graph`` out of a backward call; no edit where it is not given."""
    return drop_arguments(source, node, lambda _, keyword: keyword == "retain_graph")


def _removal(source: Source, spans: list[tuple[int, int, str | None]], index: int, previous: int | None) -> Edit:
    lines, code = source.lines, source.code
    start, end, _ = spans[index]
    comma = _comma_after(code, end)
    first, last = lines.line_of(start), lines.line_of(end)
    lead = code[lines.start(first) : start]
    rest = code[comma or end : lines.end(last)].strip()
    if not lead.strip() and (not rest or rest.startswith("#")) and last < len(lines):
        # It has its lines for itself: they go, with the comment on them.
        return Edit(source.file, lines.start(first), lines.after(last), "")
    if index + 1 < len(spans):
        following = spans[index + 1][0]
        gap = code[comma or end : following]
        stop = following if not gap.strip() and "\n" not in gap else (comma or end)
        return Edit(source.file, start, stop, "")
    if previous is not None:
        gap = code[previous:start]
        if "\n" not in gap and "#" not in gap:
            return Edit(source.file, previous, end, "")
    return Edit(source.file, start, comma if comma and previous is None else end, "")


def _comma_after(code: str, end: int) -> int | None:
    """The offset behind the comma that follows on the same line, if one does."""
    at = end
    while at < len(code) and code[at] in " \t":
        at += 1
    return at + 1 if at < len(code) and code[at] == "," else None


def weights_of(node: ast.Call) -> tuple[str, int]:
    """The name and the position of the argument that weighs what a call differentiates."""
    path = ast.unparse(node.func).split(".")
    if path[-1] == "grad":
        return "grad_outputs", 2
    return ("grad_tensors", 1) if path[-2:-1] == ["autograd"] else ("gradient", 0)
