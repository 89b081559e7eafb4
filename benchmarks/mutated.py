"""A healthy program's source with its syntax tree, the edits that keep its lines in place, and what comes of one."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Mutant:
    """A faulty version of a program: the kind of its fault, the lines where it lies, and the whole text."""

    kind: str
    lines: tuple[int, ...]
    text: str


class Source:
    """A healthy source text with its syntax tree, and the edits that keep every line where it was."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tree = ast.parse(text)
        self.parents = {child: node for node in ast.walk(self.tree) for child in ast.iter_child_nodes(node)}
        self._starts = [0]
        for line in text.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line.encode()))

    def of(self, node: ast.AST) -> str:
        """The source text of ``node``."""
        start, end = self._span(node)
        return self.text.encode()[start:end].decode()

    def replaced(self, *changes: tuple[ast.AST, str]) -> str:
        """The whole text with each node of ``changes``, which do not overlap, replaced by other text."""
        data = self.text.encode()
        for node, new in sorted(changes, key=lambda change: self._span(change[0]), reverse=True):
            start, end = self._span(node)
            data = data[:start] + new.encode() + data[end:]
        return data.decode()

    def swapped(self, first: ast.stmt, second: ast.stmt) -> str:
        """The whole text with two statements of one block in the place of each other."""
        return self.replaced((first, self.of(second)), (second, self.of(first)))

    def blocks(self) -> Iterator[list[ast.stmt]]:
        """Every block of statements, outer ones first."""
        for node in ast.walk(self.tree):
            for field in ("body", "orelse", "finalbody"):
                block = getattr(node, field, None)
                if isinstance(block, list) and block:
                    yield block

    def _span(self, node: ast.AST) -> tuple[int, int]:
        assert isinstance(node, ast.expr | ast.stmt)
        end_line, end_column = node.end_lineno, node.end_col_offset
        assert end_line is not None and end_column is not None
        return self._starts[node.lineno - 1] + node.col_offset, self._starts[end_line - 1] + end_column
