"""The concrete syntax tree of what a fix has changed: whole, and the same to the letter when written out again.

The edits themselves are splices at the interpreter's positions (see ``graphdoc.source.module``). libcst, which keeps
comments, blanks, quotes and parentheses as nodes of its tree, then reads the changed statements independently: what
it cannot read, or would write differently, is not a patch.
"""

from __future__ import annotations

import ast
import difflib

from graphdoc.source.module import Source


def unfaithful(old: Source, new: Source) -> str:
    """Why the changed statements of ``new`` are no concrete syntax tree of their own; empty where they are.

    Only top-level statements that differ are read, so the cost does not grow with the file.
    """
    import libcst

    for statement in changed_statements(old, new):
        try:
            if not _is_rewritten(statement):
                continue
        except libcst.ParserSyntaxError as e:
            try:
                ast.parse(_whole(statement))
            except SyntaxError:
                return f"line {e.raw_line} of a changed statement cannot be read"
            continue  # syntax newer than libcst: the interpreter's own parser has read it
        if not _is_odd(changed_statements(new, old)):
            return "a changed statement would not be written as it was read"
    return ""


def _whole(statement: str) -> str:
    # At the end of a module libcst loses the first of two blank lines if the second has blanks in it: what comes
    # behind the statement is read as what stands before the next one.
    return statement + ("" if statement.endswith(("\n", "\r")) else "\n") + "pass\n"


def _is_rewritten(statement: str) -> bool:
    """Whether libcst writes a statement otherwise than it reads it; that it leaves out a form feed does not count."""
    import libcst

    text = _whole(statement)
    return libcst.parse_module(text).code.replace("\f", "") != text.replace("\f", "")


def _is_odd(statements: list[str]) -> bool:
    """Whether libcst would write one of these otherwise already (it turns blanks before a tab into others): then it is
    no judge of what was made of them, and the interpreter's own parser has read that."""
    import libcst

    try:
        return any(_is_rewritten(s) for s in statements)
    except libcst.ParserSyntaxError:
        return True


def changed_statements(old: Source, new: Source) -> list[str]:
    """The source of every top-level statement of ``new`` that is not, to the letter, one of ``old``."""
    before, after = _statements(old), _statements(new)
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    return [text for tag, _, _, low, high in matcher.get_opcodes() if tag != "equal" for text in after[low:high]]


def _statements(source: Source) -> list[str]:
    tree = source.tree
    if tree is None or not tree.body:
        return []
    lines = source.lines
    # A statement with everything up to the next one: comments and blank lines belong to a concrete tree too.
    # Those that begin in the middle of a line belong to the statement before them.
    heads = {lines.start(lines.line_of(source.start_of(s))): source.start_of(s) for s in reversed(tree.body)}
    starts = sorted(line for line, first in heads.items() if not source.code[line:first].strip())
    ends = [*starts[1:], len(source.code)]
    return [source.code[a:b] for a, b in zip(starts, ends, strict=True)] if starts else [source.code]
