"""What every kind of fix uses: making itself known, looking up its places, refusing with a reason.

A kind is a function ``(sources, args) -> list[Edit]`` of this package below ``@kind(name)``, or one ``(source, node,
args) -> list[Edit]`` below ``@kind(name, call)`` where all it changes is the call (expression, statement) at the
``place`` of its ``args``. What does not fit is refused: a function of this package then raises ``CannotFix``.
All positions refer to the text of the run; ``graphdoc.fixes.kinds.build`` makes the edits and checks the result.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass
from functools import wraps
from typing import Any, TypeVar

from graphdoc.source.module import MethodCall, Source, is_method_call
from graphdoc.source.paths import is_path, last_word, parse_expression
from graphdoc.source.places import Edit, Place

Sources = Mapping[str, Source]
Args = Mapping[str, Any]
Editor = Callable[[Sources, Args], list[Edit]]
Finder = Callable[[Sources, object], tuple[Source, Any]]
_Function = TypeVar("_Function", bound=Callable[..., list[Edit]])
Trait = bool | Callable[[Args], bool]
"""What holds for a kind, or a function of its arguments that tells whether it does."""


@dataclass(frozen=True)
class Kind:
    """A kind of fix: what makes its edits, and its traits by the names of the fields of ``kinds.Traits``."""

    edit: Editor
    traits: Mapping[str, Trait]


KINDS: dict[str, Kind] = {}
"""Those whose files have been imported; ``graphdoc.fixes.kinds.known`` imports them all."""


def kind(name: str, at: Finder | None = None, **traits: Trait) -> Callable[[_Function], _Function]:
    """Make the function below known as a kind of fix.

    Args:
        name: the kind's name, as remedies and reports have it.
        at: what finds the one node that it changes, by ``place`` of its arguments; the function takes that node.
        traits: what the fix says of itself; all others are False.
    """

    def make_known(function: _Function) -> _Function:
        @wraps(function)
        def edit(sources: Sources, args: Args) -> list[Edit]:
            return function(*at(sources, required(args, "place")), args) if at is not None else function(sources, args)

        KINDS[name] = Kind(edit, traits)
        return function

    return make_known


class CannotFix(Exception):
    """This kind of fix does not apply here; the message is the reason, in words for the user."""


def place(value: object) -> Place:
    """A place from args."""
    try:
        return Place.of(value)
    except ValueError as e:
        raise CannotFix("the place to change is not known") from e


def required(args: Args, name: str) -> Any:
    """An argument that the kind cannot do without."""
    value = args.get(name)
    if value is None:
        raise CannotFix(f"the fix was asked for without its {name!r}")
    return value


def path_in(text: object) -> ast.expr:
    """A name, attribute or item from args, as the program spells it."""
    node = parse_expression(str(text))
    if node is None or not is_path(node):
        raise CannotFix(f"{text} is no name, attribute or item")
    return node


def source_of(sources: Sources, at: Place) -> Source:
    """The parsed source that a place lies in."""
    source = sources.get(at.file)
    if source is None:
        raise CannotFix(f"the source of {at.file} is not at hand")
    if not source.parses:
        raise CannotFix(f"{at.file} cannot be parsed")
    return source


def expression(sources: Sources, value: object) -> tuple[Source, ast.expr]:
    """The expression at exactly this place; for the place of an expression statement or assignment, its value."""
    at = place(value)
    source = source_of(sources, at)
    node = source.node_expression(at)
    if node is None:
        owner = source.node_statement(at)
        inner = getattr(owner, "value", None)
        if owner is not None and isinstance(inner, ast.expr) and _covers(source, owner, at):
            node = inner
    if node is None:
        raise CannotFix(f"no expression stands exactly at {at.file}:{at.line}")
    if not isinstance(getattr(node, "ctx", ast.Load()), ast.Load):
        raise CannotFix(f"what stands at {at.file}:{at.line} is assigned, not used")
    if isinstance(node, ast.Starred):
        node = node.value
    return source, node


def _covers(source: Source, owner: ast.stmt, at: Place) -> bool:
    if not at.exact:
        return len([s for s in source.node_statements() if s.lineno == at.line]) == 1
    return source.place(owner) == Place(at.file, at.line, at.column, at.end_line, at.end_column)


def last_name(node: ast.expr) -> str:
    """``no_grad`` of ``torch.no_grad()``, ``torch.no_grad`` and ``no_grad``."""
    while isinstance(node, ast.Call):
        node = node.func
    return last_word(node)


def call(sources: Sources, value: object) -> tuple[Source, ast.Call]:
    """The call at exactly this place; with only a line, the one call that the statement is."""
    source, node = expression(sources, value)
    if not isinstance(node, ast.Call):
        raise CannotFix(f"what stands at {place(value).file}:{node.lineno} is not a call")
    return source, node


def plain_backward(
    sources: Sources, value: object, allowed: Set[str] = frozenset({"retain_graph"})
) -> tuple[Source, MethodCall, ast.stmt]:
    """The call of ``backward`` that a statement is, with no arguments but the ``allowed`` ones, and the statement."""
    source, node = call(sources, value)
    owner = source.node_owner(node)
    if not is_method_call(node, "backward"):
        raise CannotFix(f"{source.file}:{node.lineno} does not call backward on a loss")
    if not isinstance(owner, ast.Expr) or owner.value is not node:
        raise CannotFix("the backward call is part of a larger statement")
    if node.args or any(k.arg not in allowed for k in node.keywords):
        raise CannotFix("a backward call with its own gradient or inputs gives another gradient")
    return source, node, owner


def statement(sources: Sources, value: object) -> tuple[Source, ast.stmt]:
    """The innermost statement at a place."""
    at = place(value)
    source = source_of(sources, at)
    node = source.node_statement(at)
    if node is None:
        raise CannotFix(f"no statement stands at {at.file}:{at.line}")
    return source, node


def both_at(sources: Sources, value: object) -> tuple[Source, ast.stmt, ast.expr | None]:
    """The innermost statement at a place, and the expression that stands exactly there, if one does."""
    source, owner = statement(sources, value)
    return source, owner, source.node_expression(place(value))


def statements(sources: Sources, args: Args) -> tuple[Source, list[ast.stmt]]:
    """The statement at ``place``, or all from it to the one at ``last``, in the same block."""
    source, first = statement(sources, required(args, "place"))
    if args.get("last") is None:
        return source, [first]
    _, last = statement(sources, args["last"])
    block, index = source.node_block(first)
    if last not in block[index:]:
        raise CannotFix("the statements do not follow one another in one block")
    return source, block[index : block.index(last) + 1]


def anchored(sources: Sources, args: Args) -> tuple[Source, ast.stmt, bool]:
    """The statement behind which (``after``) or in front of which (``before``) something is put; True for behind."""
    behind = "before" not in args
    source, anchor = statement(sources, required(args, "after" if behind else "before"))
    if behind and isinstance(anchor, ast.Return | ast.Raise | ast.Break | ast.Continue):
        raise CannotFix("nothing after that statement is ever reached")
    return source, anchor, behind
