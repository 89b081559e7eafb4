"""Compute new pieces of a tensor and join them, instead of writing into the pieces that a loop runs over.

``for t, m in zip(image, mean): t.sub_(m)`` becomes ``image = torch.stack([t.sub(m) for t, m in zip(image, mean)])``;
a longer body collects its pieces in a list. Pieces of ``chunk`` and ``split`` are joined with ``torch.cat``.

Args:
    place: the write, as for ``out_of_place``; it stands in the body of the loop that binds what it writes into.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

from graphdoc.fixes.aliases import read_after, refuse_lost, view_binding
from graphdoc.fixes.fix_kind import Args, CannotFix, Sources, required, statement
from graphdoc.fixes.out_of_place import edit as out_of_place
from graphdoc.fixes.slice_writes import refuse_for_caller
from graphdoc.source.edits import insert_after, insert_before, write
from graphdoc.source.loop_variables import iterated
from graphdoc.source.module import Function, Loop, Source
from graphdoc.source.paths import SYMBOLS, is_path, key
from graphdoc.source.places import Edit
from graphdoc.source.scopes import fresh_name, is_rebindable, torch_name

KIND = "join_pieces"
KEEPS_NUMBERS = True

_CUTTING = {"unbind": "stack", "chunk": "cat", "split": "cat", "tensor_split": "cat"}


@dataclass(frozen=True)
class Pieces:
    """A loop over the pieces of a tensor: ``name`` is the piece's, ``join`` puts them together along ``dim``."""

    loop: ast.For
    name: str
    base: ast.expr
    join: str
    dim: str


def edit(sources: Sources, args: Args) -> list[Edit]:
    source, owner = statement(sources, required(args, "place"))
    found = pieces_at(source, owner)
    if found is None:
        raise CannotFix("no loop over the pieces of a named tensor stands around that place")
    loop, base = found.loop, source.segment(found.base)
    _check(source, found)
    torch = torch_name(source, loop)
    end = f", dim={found.dim})" if found.dim else ")"
    piece = _one_line(source, found)
    if piece:
        header = f"for {source.segment(loop.target)} in {source.segment(loop.iter)}"
        return [write(source, loop, f"{base} = {torch.text}.{found.join}([{piece} {header}]{end}"), *torch.edits]
    gathered = fresh_name(source, "pieces", f"{found.name}_pieces")
    edits = insert_before(source, loop, [f"{gathered} = []"])
    writes = [s for s in _statements(loop) if _writes(s, found.name)]
    for write in writes:
        edits += out_of_place(sources, {"place": vars(source.place(write)), "joined": True})
    edits += insert_after(source, loop.body[-1], [f"{gathered}.append({found.name})"])
    edits += insert_after(source, loop, [f"{base} = {torch.text}.{found.join}({gathered}{end}"])
    return [*edits, *torch.edits]


def pieces_at(source: Source, owner: ast.stmt) -> Pieces | None:
    """The loop whose variable a statement writes into, where the loop runs over one tensor's pieces."""
    name = _written(owner)
    bound = view_binding(source, owner, name) if name else None
    if bound is None or not isinstance(bound.statement, ast.For):
        return None
    loop = bound.statement
    given = iterated(loop.target, loop.iter, name)
    if given is None:
        return None
    if is_path(given):
        return Pieces(loop, name, given, "stack", "")
    if not isinstance(given, ast.Call) or not isinstance(given.func, ast.Attribute):
        return None
    join = _CUTTING.get(given.func.attr)
    library = isinstance(given.func.value, ast.Name) and given.func.value.id in ("torch", "th")
    base = given.args[0] if library and given.args else given.func.value
    rest = given.args[1:] if library else given.args
    if join is None or not is_path(base) or any(isinstance(a, ast.Starred) for a in given.args):
        return None
    at = 0 if join == "stack" else 1
    dim = next((k.value for k in given.keywords if k.arg == "dim"), rest[at] if len(rest) > at else None)
    return Pieces(loop, name, base, join, source.segment(dim) if dim is not None else "")


def _written(owner: ast.stmt) -> str:
    """The plain name that a statement writes into; empty where it is none."""
    node: ast.AST | None = None
    if isinstance(owner, ast.AugAssign):
        node = owner.target
    elif isinstance(owner, ast.Assign) and len(owner.targets) == 1 and isinstance(owner.targets[0], ast.Subscript):
        node = owner.targets[0]
    elif isinstance(owner, ast.Expr) and isinstance(owner.value, ast.Call):
        node = owner.value
        flagged = any(k.arg == "inplace" for k in owner.value.keywords)
        if flagged and owner.value.args:
            node = owner.value.args[0]
    writes = not isinstance(node, ast.Call)
    while node is not None and not isinstance(node, ast.Name):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            writes = writes or (node.func.attr.endswith("_") and not node.func.attr.endswith("__"))
            node = node.func.value
        elif isinstance(node, ast.Subscript):
            node = node.value
        else:
            return ""
    return node.id if node is not None and writes else ""


def _writes(statement: ast.stmt, name: str) -> bool:
    return _written(statement) == name


def _statements(loop: ast.For) -> list[ast.stmt]:
    return [n for n in ast.walk(loop) if isinstance(n, ast.stmt) and n is not loop]


def _check(source: Source, found: Pieces) -> None:
    """Every round must give exactly one piece, and nothing may look at the tensor while it is written.

    Raises:
        CannotFix: that does not hold, or the joined tensor would be lost.
    """
    loop, base = found.loop, found.base
    inside = _statements(loop)
    if loop.orelse or any(isinstance(s, ast.Break | ast.Continue | ast.Return) for s in inside):
        raise CannotFix("the loop may leave out pieces")
    if any(isinstance(s, Function | Loop) for s in inside):
        raise CannotFix("the pieces are written in a loop or function of their own")
    spelling = key(base)
    if any(isinstance(n, type(base)) and key(n) == spelling for s in loop.body for n in ast.walk(s)):
        raise CannotFix(f"the loop reads {source.segment(base)} while it writes its pieces")
    if isinstance(base, ast.Name):
        refuse_for_caller(source, loop, base)
        refuse_lost(source, loop, base)
        if not is_rebindable(source, base.id, loop):
            raise CannotFix(f"{base.id} belongs to an enclosing scope and cannot be bound anew here")


def _one_line(source: Source, found: Pieces) -> str:
    """The piece as one expression, where the body is a single write with a plain counterpart; else empty."""
    loop = found.loop
    if len(loop.body) != 1 or read_after(source, loop, found.name, None) or "\n" in text_of(source, loop.body[0], ""):
        return ""
    only = loop.body[0]
    if source.span(loop.iter)[1] > source.span(only)[0] or "#" in source.code[slice(*source.span(loop))]:
        return ""
    if isinstance(only, ast.AugAssign) and isinstance(only.target, ast.Name):
        value = source.segment(only.value)
        plain = isinstance(only.value, ast.Name | ast.Constant | ast.Attribute | ast.Call | ast.Subscript)
        return f"{found.name} {SYMBOLS[type(only.op)]} {value if plain else f'({value})'}"
    if not isinstance(only, ast.Expr):
        return ""
    edits = out_of_place({source.file: source}, {"place": vars(source.place(only)), "joined": True})
    start, end = source.span(only)
    if any(e.start < start or e.end > end for e in edits):
        return ""
    text = source.code[start:end]
    for e in sorted(edits, key=lambda e: -e.start):
        text = text[: e.start - start] + e.text + text[e.end - start :]
    target, equals, value = text.partition(" = ")
    return value if equals and target == found.name else ""
