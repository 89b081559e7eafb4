"""The pieces and rows of a tensor: new ones joined, or each a tensor of its own."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass

from graphdoc.fixes.aliases import refuse_lost, view_binding, written_name
from graphdoc.fixes.fix_kind import Args, CannotFix, Sources, expression, kind, required, statement
from graphdoc.fixes.out_of_place import out_of_place, refuse_for_caller
from graphdoc.source.edits import insert_after, insert_before, instead, spot, write, written
from graphdoc.source.expressions import counts, first_index, is_full
from graphdoc.source.module import Function, Loop, Source, each, is_method_call, keyword, walked
from graphdoc.source.paths import is_attribute, is_name, is_path, key, only, without_subscripts
from graphdoc.source.places import Beside, Copied, Edit, Instead, Written
from graphdoc.source.scopes import fresh_name, is_read_later, is_rebindable, is_torchs, iterated, torch_name

_CUTTING = {"unbind": "stack", "chunk": "cat", "split": "cat", "tensor_split": "cat"}


@dataclass(frozen=True)
class Pieces:
    """A loop over the pieces of a tensor: ``name`` is the piece's, ``join`` puts them together along ``dim``."""

    loop: ast.For
    name: str
    base: ast.expr
    join: str
    dim: ast.expr | None


@kind("join_pieces", keeps_numbers=True)
def join_pieces(sources: Sources, args: Args) -> list[Edit]:
    """Compute new pieces of a tensor and join them, instead of writing into the pieces that a loop runs over.

    ``for t, m in zip(image, mean): t.sub_(m)`` becomes ``image = torch.stack([t.sub(m) for t, m in zip(image,
    mean)])``; a longer body collects its pieces in a list. Pieces of ``chunk`` and ``split`` are joined with
    ``torch.cat``.

    Args:
        place: the write, as for ``out_of_place``; it stands in the body of the loop that binds what it writes into.
    """
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
        if written_name(node) == found.name:
            edits += out_of_place(sources, {"place": vars(source.place(node)), "joined": True})
    edits += insert_after(source, loop.body[-1], [f"{gathered}.append({found.name})"])
    edits += insert_after(source, loop, [written(source, call, base=found.base, pieces=gathered, **along)])
    return [*edits, *torch.edits]


def pieces_at(source: Source, owner: ast.stmt) -> Pieces | None:
    """The loop whose variable a statement writes into, where the loop runs over one tensor's pieces."""
    name = written_name(owner)
    bound = view_binding(source, owner, name) if name else None
    if bound is None or not isinstance(bound.statement, ast.For):
        return None
    loop = bound.statement
    given = iterated(loop.target, loop.iter, name)
    if given is None:
        return None
    if is_path(given):
        return Pieces(loop, name, given, "stack", None)
    if not is_method_call(given):
        return None
    join = _CUTTING.get(given.func.attr)
    library = is_torchs(source, given.func.value)
    base = given.args[0] if library and given.args else given.func.value
    rest = given.args[1:] if library else given.args
    if join is None or not is_path(base) or any(isinstance(a, ast.Starred) for a in given.args):
        return None
    at = 0 if join == "stack" else 1
    dim = keyword(given, "dim") or (rest[at] if len(rest) > at else None)
    return Pieces(loop, name, base, join, dim)


def _statements(loop: ast.For) -> list[ast.stmt]:
    return [n for n in each(loop, ast.stmt) if n is not loop]


def _check(source: Source, found: Pieces) -> None:
    """Every round must give exactly one piece, and nothing may look at the tensor while it is written."""
    loop, base = found.loop, found.base
    inside = _statements(loop)
    if loop.orelse or any(isinstance(s, ast.Break | ast.Continue | ast.Return) for s in inside):
        raise CannotFix("the loop may leave out pieces")
    if any(isinstance(s, Function | Loop) for s in inside):
        raise CannotFix("the pieces are written in a loop or function of their own")
    spelling = key(base)
    if any(key(n) == spelling for s in loop.body for n in each(s, type(base))):
        raise CannotFix(f"the loop reads {source.segment(base)} while it writes its pieces")
    if isinstance(base, ast.Name):
        refuse_for_caller(source, loop, base)
        refuse_lost(source, loop, base)
        if not is_rebindable(source, base.id, loop):
            raise CannotFix(f"{base.id} belongs to an enclosing scope and cannot be assigned here")


def _one_line(source: Source, found: Pieces) -> tuple[Written, list[Edit]] | None:
    """The piece as one expression, with the edits inside it, where the body is one write with a plain counterpart."""
    loop, own = found.loop, found.loop.body[0]
    several_lines = "\n" in source.segment(own) or source.span(loop.iter)[1] > source.span(own)[0]
    if len(loop.body) != 1 or several_lines or "#" in source.segment(loop) or is_read_later(source, loop, found.name):
        return None
    if not isinstance(own, ast.Expr) and not (isinstance(own, ast.AugAssign) and isinstance(own.target, ast.Name)):
        return None
    edits = out_of_place({source.file: source}, {"place": vars(source.place(own)), "joined": True})
    here = spot(source, own)
    if any(e.at is None or not here.holds(e.at) or isinstance(e.change, Beside) for e in edits):
        return None
    text = only([t for e in edits if isinstance(e.change, Instead) for t in e.change.texts])
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


_MAKERS = frozenset({"zeros", "empty", "ones", "full", "new_zeros", "new_empty", "new_ones", "new_full"})
_KINDS = frozenset({"float", "double", "half", "to", "cuda", "cpu"})


@kind("rows_of_buffer", keeps_numbers=True)
def rows_of_buffer(sources: Sources, args: Args) -> list[Edit]:
    """A list of tensors, one a row, in place of one buffer of which each loss takes a row of its own.

    ``v = torch.zeros(n, t)`` → ``v = [row.clone() for row in torch.zeros(n, t)]``; ``v[i, t]`` → ``v[i][t]``. Every row
    then has its own version and its own graph.

    Args:
        read: the place where a row is read, ``v[i]``; ``v`` is a name or ``self.v``.
    """
    source, node = expression(sources, required(args, "read"))
    if not isinstance(node, ast.Subscript):
        raise CannotFix("no row of a buffer is read there")
    path = key(without_subscripts(node))
    scope = _scope(source, node, path)
    uses = [n for n in each(scope, ast.Name, ast.Attribute) if key(n) == path]
    if "." in path:
        _refuse_elsewhere(sources.values(), scope, path.split(".")[1])
    edits: list[Edit] = []
    made = 0
    for use in uses:
        statement = source.node_owner(use)
        if isinstance(statement, ast.Assign) and statement.targets == [use]:
            edits.append(_rows(source, statement, path))
            made += 1
        else:
            edits += _row(source, use, path)
    if not made:
        raise CannotFix(f"where {path} is allocated is not known")
    return edits


def _scope(source: Source, node: ast.AST, path: str) -> ast.AST:
    """Where the buffer's name is used: its function, or for ``self.v`` its class."""
    first, *rest = path.split(".")
    kind = (ast.ClassDef,) if rest else (ast.FunctionDef, ast.AsyncFunctionDef)
    if len(rest) > 1 or (rest and first != "self"):
        raise CannotFix(f"{path} is not this class's own")
    above = next((a for a in source.node_ancestors(node) if isinstance(a, kind)), None)
    if above is None and (rest or not source.parses):
        raise CannotFix(f"the class of {path} is not known")
    return above if above is not None else source.tree


def _refuse_elsewhere(sources: Iterable[Source], scope: ast.AST, name: str) -> None:
    """Refuse where other code reads the attribute: it may want one tensor."""
    own = set(walked(scope))
    for source in sources:
        for node in each(source.tree, ast.Attribute):
            if node.attr != name or node in own:
                continue
            if not is_name(node.value, "self") and source.node_call_of(node) is None:
                raise CannotFix(f"{name} is used at {source.file}:{node.lineno} too")


def _rows(source: Source, statement: ast.Assign, path: str) -> Edit:
    """The allocation, one row at a time."""
    value: ast.expr = statement.value
    while is_method_call(value) and value.func.attr in _KINDS:
        value = value.func.value
    maker = value.func if isinstance(value, ast.Call) else None
    if not is_attribute(maker, *_MAKERS):
        raise CannotFix(f"{path} is more than a new tensor of one value at line {statement.lineno}")
    name = fresh_name(source, "row", "one_row")
    return write(source, statement.value, f"[{name}.clone() for {name} in {{buffer}}]", buffer=statement.value)


def _row(source: Source, use: ast.AST, path: str) -> list[Edit]:
    """What a read or write of one row, or of a part of it, becomes."""
    above = source.parents.get(use)
    if isinstance(above, ast.Call) and is_name(above.func, "len"):
        return []
    first = first_index(above) if isinstance(above, ast.Subscript) and above.value is use else None
    number = isinstance(first, ast.Constant) and type(first.value) is int
    if not isinstance(above, ast.Subscript) or not (number or (isinstance(first, ast.Name) and counts(source, first))):
        raise CannotFix(f"{path} is used as a whole at line {getattr(use, 'lineno', 0)}")
    if not isinstance(above.slice, ast.Tuple):
        return []
    rest = [f"index{i}" for i in range(1, len(above.slice.elts))]
    template = "{buffer}[{index0}]" + (f"[{', '.join(f'{{{name}}}' for name in rest)}]" if rest else "")
    parts = {f"index{i}": e for i, e in enumerate(above.slice.elts)}
    return [write(source, above, template, buffer=above.value, **parts)]


@kind("drop_full_slice", statement, keeps_numbers=True)
def drop_full_slice(source: Source, owner: ast.stmt, _: Args) -> list[Edit]:
    """Write without the ``[:]`` that selects everything: ``x[a:b][:] += y`` → ``x[a:b] += y``."""
    target = owner.target if isinstance(owner, ast.AugAssign) else None
    if not isinstance(target, ast.Subscript) or not is_full(target.slice):
        raise CannotFix("no full slice is written there")
    inner: ast.expr = target
    while isinstance(inner, ast.Subscript) and is_full(inner.slice):
        inner = inner.value
    if not isinstance(inner, ast.Subscript):
        raise CannotFix("without the slice the name itself would be bound to a new tensor where it is no tensor yet")
    return [write(source, target, "{inner}", inner=inner)]
