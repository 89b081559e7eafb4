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
from graphdoc.source.edits import insert_after, insert_before, instead, spot, written
from graphdoc.source.loop_variables import iterated
from graphdoc.source.module import Function, Loop, Source
from graphdoc.source.paths import is_path, key
from graphdoc.source.places import Beside, Copied, Edit, Instead, Written
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
    dim: ast.expr | None


def edit(sources: Sources, args: Args) -> list[Edit]:
    source, owner = statement(sources, required(args, "place"))
    found = pieces_at(source, owner)
    if found is None:
        raise CannotFix("no loop over the pieces of a named tensor stands around that place")
    loop = found.loop
    _check(source, found)
    torch = torch_name(source, loop)
    along = {"dim": found.dim} if found.dim is not None else {}
    call = f"{{base}} = {torch.text}.{found.join}({{pieces}}{', dim={dim}' if along else ''})"
    if (piece := _one_line(source, found)) is not None:
        value, edits = piece
        listed = call.replace("{pieces}", f"[{value.template} for {{target}} in {{iter}}]")
        joined = written(source, listed, base=found.base, target=loop.target, iter=loop.iter, **along)
        joined = Written(joined.template, (*joined.parts, *value.parts))
        return [*instead(source, loop, [joined]), *edits, *torch.edits]
    gathered = fresh_name(source, "pieces", f"{found.name}_pieces")
    edits = insert_before(source, loop, [f"{gathered} = []"])
    for node in _statements(loop):
        if _writes(node, found.name):
            edits += out_of_place(sources, {"place": vars(source.place(node)), "joined": True})
    edits += insert_after(source, loop.body[-1], [f"{gathered}.append({found.name})"])
    edits += insert_after(source, loop, [written(source, call, base=found.base, pieces=gathered, **along)])
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
        return Pieces(loop, name, given, "stack", None)
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
    return Pieces(loop, name, base, join, dim)


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


def _one_line(source: Source, found: Pieces) -> tuple[Written, list[Edit]] | None:
    """The piece as one expression, with the edits inside it, where the body is one write with a plain counterpart."""
    loop, only = found.loop, found.loop.body[0]
    if len(loop.body) != 1 or read_after(source, loop, found.name, None) or "\n" in source.segment(only):
        return None
    if source.span(loop.iter)[1] > source.span(only)[0] or "#" in source.segment(loop):
        return None
    if not isinstance(only, ast.Expr) and not (isinstance(only, ast.AugAssign) and isinstance(only.target, ast.Name)):
        return None
    edits = out_of_place({source.file: source}, {"place": vars(source.place(only)), "joined": True})
    here = spot(source, only)
    if any(e.at is None or not here.holds(e.at) or isinstance(e.change, Beside) for e in edits):
        return None
    texts = [t for e in edits if isinstance(e.change, Instead) for t in e.change.texts]
    text = texts[0] if len(texts) == 1 else None
    if not isinstance(text, Written):
        return None
    target, _, value = text.template.partition(" = ")
    if not _stands_for(source, target, text, found.name):
        return None
    used = tuple(p for p in text.parts if f"{{{p[0]}}}" in value)
    return Written(value, used), [e for e in edits if not isinstance(e.change, Instead)]


def _stands_for(source: Source, target: str, text: Written, name: str) -> bool:
    """Whether the target of a template is a name, written there or one of its parts."""
    part = dict(text.parts).get(target.strip("{}"), target)
    at = part.at if isinstance(part, Copied) else part
    return name == (at if isinstance(at, str) else source.code[at.start : at.end])
