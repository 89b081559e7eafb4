"""The primitives that every kind of fix is made of: each names nodes of a file and what is to stand there.

They are made on libcst's tree by ``graphdoc.source.concrete``. Reading stays on the interpreter's own tree, which is
ten times quicker: a node of it is named by its place.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

from graphdoc.source.module import Function, Source
from graphdoc.source.places import (
    Below,
    Beside,
    Copied,
    Decorators,
    Edit,
    Filled,
    Instead,
    Members,
    Named,
    Opened,
    Spot,
    Text,
    Under,
    Written,
)

Piece = ast.expr | Copied | str
"""What stands for a name of a template: an expression of the same file, a copy of one, or a text."""


def spot(source: Source, node: ast.AST) -> Spot:
    """Where a node stands."""
    return Spot(*source.span(node), isinstance(node, ast.stmt))


def written(source: Source, template: str, **parts: Piece) -> Written:
    """A template whose ``{name}`` are these expressions; parentheses are added where they are needed."""
    given = ((n, spot(source, p) if isinstance(p, ast.expr) else p) for n, p in parts.items())
    return Written(template, tuple(given))


# -- expressions -----------------------------------------------------------------------------------------------------


def write(source: Source, node: ast.expr, template: str, **parts: Piece) -> Edit:
    """Put a template in the place of an expression.

    The expression itself may be one of the parts; a part comes with what is changed inside it.
    """
    return Edit(source.file, spot(source, node), Filled(written(source, template, **parts)))


def rename(source: Source, node: ast.expr | ast.arg, name: str) -> Edit:
    """Another name in the place of a name or a parameter, or behind the last dot of an attribute."""
    at = spot(source, node)
    if isinstance(node, ast.arg):  # without its annotation
        at = Spot(at.start, at.start + len(node.arg))
    return Edit(source.file, at, Named(name))


# -- what a node lists -----------------------------------------------------------------------------------------------


def add_members(source: Source, node: ast.expr | ast.stmt, texts: Sequence[str]) -> list[Edit]:
    """Put arguments, elements or parameters behind those that a call, a tuple or list, or a function has."""
    return [Edit(source.file, spot(source, node), Members(added=tuple(texts)))] if texts else []


def drop_item(source: Source, node: ast.With | ast.AsyncWith, item: ast.withitem) -> list[Edit]:
    """Take one of several items out of a ``with``."""
    return [Edit(source.file, spot(source, node), Members(dropped=(node.items.index(item),)))]


def decorate(source: Source, node: Function, text: str) -> list[Edit]:
    """Put a decorator directly above a ``def``."""
    return [Edit(source.file, spot(source, node), Decorators(added=(text,)))]


def drop_decorator(source: Source, node: Function, decorator: ast.expr) -> list[Edit]:
    """Take a decorator off a function."""
    return [Edit(source.file, spot(source, node), Decorators(dropped=(node.decorator_list.index(decorator),)))]


def add_argument(source: Source, node: ast.Call, text: str) -> list[Edit]:
    """Put an argument behind the others."""
    return add_members(source, node, [text])


def set_keyword(source: Source, node: ast.Call, name: str, value: str) -> list[Edit]:
    """Give a call this keyword argument; a value that it has is replaced, the same value gives no edit."""
    for keyword in node.keywords:
        if keyword.arg == name:
            return [] if source.segment(keyword.value) == value else [write(source, keyword.value, value)]
    return add_argument(source, node, f"{name}={value}")


def drop_arguments(source: Source, node: ast.Call, unwanted: Callable[[int, str | None], bool]) -> list[Edit]:
    """Remove the arguments for whose index and keyword ``unwanted`` is true; none of them gives no edit."""
    given = sorted([*node.args, *node.keywords], key=lambda a: source.span(a))
    dropped = [i for i, a in enumerate(given) if unwanted(i, getattr(a, "arg", None))]
    return [Edit(source.file, spot(source, node), Members(dropped=tuple(dropped)))] if dropped else []


def without_flag(source: Source, node: ast.Call) -> list[Edit]:
    """Take ``retain_graph`` out of a backward call; no edit where it is not given."""
    return drop_arguments(source, node, lambda _, keyword: keyword == "retain_graph")


# -- statements ------------------------------------------------------------------------------------------------------


def insert_after(source: Source, statement: ast.stmt, texts: Sequence[Text], once: bool = False) -> list[Edit]:
    """Insert statements behind a statement, in its block."""
    return [Edit(source.file, spot(source, statement), Beside(tuple(texts), True), once)] if texts else []


def insert_before(source: Source, statement: ast.stmt, texts: Sequence[Text], once: bool = False) -> list[Edit]:
    """Insert statements before a statement (and its decorators), in its block."""
    return [Edit(source.file, spot(source, statement), Beside(tuple(texts), False), once)] if texts else []


def where_bound(source: Source, statement: ast.stmt, texts: Sequence[Text]) -> list[Edit]:
    """Insert statements where what a statement binds is there: behind it, or first in the body of a loop or with."""
    if isinstance(statement, ast.For | ast.AsyncFor | ast.With | ast.AsyncWith):
        return insert_before(source, statement.body[0], texts)
    return insert_after(source, statement, texts)


def instead(source: Source, statement: ast.stmt, texts: Sequence[Text]) -> list[Edit]:
    """Put statements in the place of a statement."""
    return [Edit(source.file, spot(source, statement), Instead(tuple(texts)))]


def written_out(source: Source, statement: ast.AugAssign) -> list[Edit]:
    """``x += y`` as ``x = x + y``."""
    target, value = statement.target, ast.BinOp(ast.Name("{old}"), statement.op, ast.Name("{new}"))
    template = f"{{target}} = {ast.unparse(value)}"
    return instead(source, statement, [written(source, template, target=target, old=target, new=statement.value)])


def bound(source: Source, statement: ast.stmt, name: Piece) -> list[Edit]:
    """The value of an expression statement, or of an assignment, bound to a further name: ``name = value``."""
    value: ast.expr = statement.value  # type: ignore[attr-defined]
    targets = dict(enumerate(statement.targets)) if isinstance(statement, ast.Assign) else {}
    template = "".join(f"{{target{i}}} = " for i in targets) + "{name} = {value}"
    parts = {f"target{i}": t for i, t in targets.items()}
    return instead(source, statement, [written(source, template, **parts, name=name, value=value)])


def delete(source: Source, statement: ast.stmt) -> list[Edit]:
    """Remove a statement and the comment on its line; ``pass`` stays where the block would be empty."""
    return instead(source, statement, ())


def copied(source: Source, node: ast.stmt | ast.expr, edits: Sequence[Edit] = ()) -> Copied:
    """A statement or an expression as it is to stand elsewhere, with edits that are made there alone."""
    return Copied(spot(source, node), tuple(edits))


def below(header: Written, texts: Sequence[Text]) -> Below:
    """A compound statement of a header and what stands below it."""
    return Below(header, tuple(texts))


def wrap(source: Source, statements: Sequence[ast.stmt], header: str) -> list[Edit]:
    """Put ``header`` (``with …:``) before consecutive statements of one block and indent them."""
    last = spot(source, statements[-1])
    return [Edit(source.file, spot(source, statements[0]), Under(header, last))]


def unwrap(source: Source, statement: ast.stmt, body: Sequence[ast.stmt] | None = None) -> list[Edit]:
    """Replace a compound statement by (one of) its bodies; the header goes."""
    inner = body if body is not None else statement.body  # type: ignore[attr-defined]
    return [Edit(source.file, spot(source, statement), Opened(spot(source, inner[0])))]
