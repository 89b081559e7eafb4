"""Writes into a part of a tensor: ``torch.where``, a list and ``torch.stack``, or a clone before the write."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from graphdoc.fixes.aliases import refuse_lost
from graphdoc.fixes.fix_kind import Args, CannotFix
from graphdoc.fixes.slice_maps import mapped, value_first
from graphdoc.fixes.slice_rows import by_rows
from graphdoc.source.displays import is_container
from graphdoc.source.edits import insert_after, insert_before, instead, write, written
from graphdoc.source.module import Source
from graphdoc.source.paths import is_path, key, same, targets_of
from graphdoc.source.places import Edit
from graphdoc.source.rows import is_full
from graphdoc.source.scopes import is_rebindable, parameters, torch_name


def rewrite(source: Source, owner: ast.Assign | ast.AugAssign, target: ast.Subscript, args: Args) -> list[Edit]:
    """The best edit for ``base[index] = value``."""
    base: ast.expr = target.value
    while isinstance(base, ast.Subscript) and not _string_key(base) and not is_container(source, base.value):
        base = base.value
    text = args.get("base") or (source.segment(base) if is_path(base) else "")
    if not text:
        raise CannotFix("the tensor that is written has no name here")
    if (
        args.get("mode") != "clone"
        and isinstance(owner, ast.Assign)
        and len(owner.targets) == 1
        and base is target.value
    ):
        return (
            _where(source, owner, target)
            or _stack(source, owner, target)
            or mapped(source, owner, target)
            or value_first(source, owner, target, text)
            or clone_before(source, owner, text, bool(args.get("joined")))
        )
    rows = by_rows(source, owner, target) if args.get("mode") != "clone" and not args.get("joined") else []
    return (
        rows or value_first(source, owner, target, text) or clone_before(source, owner, text, bool(args.get("joined")))
    )


def _string_key(node: ast.Subscript) -> bool:
    return isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str)


def refuse_for_caller(source: Source, at: ast.stmt, target: ast.expr) -> None:
    """Refuse where the write is what a function is called for: into its parameter, and nothing is returned.

    Raises:
        CannotFix: the caller would no longer see the change.
    """
    function = source.node_function(at)
    if function is None or not isinstance(target, ast.Name) or target.id not in parameters(function):
        return
    if not any(isinstance(n, ast.Return | ast.Yield) and n.value is not None for n in ast.walk(function)):
        raise CannotFix(f"{function.name} is called for what it writes into {target.id}: a copy would be lost")


def clone_before(source: Source, owner: ast.stmt, text: str, joined: bool = False) -> list[Edit]:
    """``text = text.clone()`` before a write, or before the first of a run of writes into the same tensor.

    Raises:
        CannotFix: it is there already, or the name cannot be bound here.
    """
    root = ast.parse(text, mode="eval").body
    if isinstance(root, ast.Name):
        refuse_for_caller(source, owner, root)
        if not joined:
            refuse_lost(source, owner, root)
        if not is_rebindable(source, root.id, owner):
            raise CannotFix(f"{text} belongs to an enclosing scope and cannot be bound anew here")
    found = source.node_block(owner)
    first = owner
    if found is not None:
        block, index = found
        while index > 0 and _writes_into(block[index - 1], root) and not _reads(block[index], root):
            index -= 1
        first = block[index]
        before = block[index - 1] if index else None
        if isinstance(before, ast.Assign) and ast.unparse(before) == ast.unparse(ast.parse(f"{text} = {text}.clone()")):
            raise CannotFix(f"{text} is already cloned there")
    return insert_before(source, first, [f"{text} = {text}.clone()"])


def _writes_into(statement: ast.stmt, base: ast.expr) -> bool:
    """Whether a statement is a plain write into the tensor that does not read it."""
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1 or _reads(statement, base):
        return False
    target = statement.targets[0]
    return isinstance(target, ast.Subscript) and same(target.value, base)


def _reads(statement: ast.stmt, base: ast.expr) -> bool:
    value = getattr(statement, "value", None)
    if isinstance(statement, ast.AugAssign) or value is None:
        return True
    spelling = key(base)
    return any(isinstance(n, type(base)) and key(n) == spelling for n in ast.walk(value))


def _where(source: Source, owner: ast.Assign, target: ast.Subscript) -> list[Edit]:
    """``y[y < 0] = 0`` → ``y = torch.where(y < 0, 0, y)``: only a mask made from y itself surely has its shape."""
    mask, value = target.slice, owner.value
    number = value.operand if isinstance(value, ast.UnaryOp) else value
    plain = isinstance(number, ast.Constant) and isinstance(number.value, int | float)
    if not plain or not isinstance(mask, ast.Compare) or not same(mask.left, target.value) or len(mask.ops) != 1:
        return []
    if not isinstance(mask.comparators[0], ast.Constant | ast.UnaryOp):
        return []
    base = target.value
    if isinstance(base, ast.Name):
        refuse_for_caller(source, owner, base)
        if not is_rebindable(source, base.id, owner):
            return []
    torch = torch_name(source, owner)
    new = written(
        source, f"{{base}} = {torch.text}.where({{mask}}, {{value}}, {{base}})", base=base, mask=mask, value=value
    )
    return [*instead(source, owner, [new]), *torch.edits]


@dataclass
class _Fill:
    """A loop that fills a preallocated tensor: ``dim`` is the dimension that the loop variable runs over."""

    base: ast.Name
    variable: str
    dim: int


def _stack(source: Source, owner: ast.Assign, target: ast.Subscript) -> list[Edit]:
    """The edits for a list and ``torch.stack`` where every use of the tensor fits the plain pattern, else none."""
    loop = source.parents.get(owner)
    base = target.value
    if not isinstance(loop, ast.For) or owner not in loop.body or loop.orelse or not isinstance(base, ast.Name):
        return []
    if not isinstance(loop.target, ast.Name) or isinstance(owner.value, ast.Constant | ast.Tuple):
        return []
    if any(isinstance(n, ast.Break | ast.Continue) for n in ast.walk(loop)):
        return []
    dim = _dimension(target.slice, loop.target.id)
    bounds = _range(loop.iter)
    found = source.node_block(loop)
    if dim is None or bounds is None or found is None:
        return []
    begin, stop = bounds
    fill = _Fill(base, loop.target.id, dim)
    block, at = found
    allocation = next((i for i in range(at - 1, -1, -1) if any(same(t, base) for t in targets_of(block[i]))), None)
    if allocation is None or not _allocates(block[allocation], fill, stop):
        return []
    between = block[allocation + 1 : at]
    firsts = [s for s in between if isinstance(s, ast.Assign) and _writes_into(s, base)]
    if [_constant_index(s) for s in firsts] != list(range(begin)):
        return []
    uses = [n for s in (*between, loop) for n in ast.walk(s) if isinstance(n, ast.Name) and n.id == base.id]
    writes = [s.targets[0].value for s in (*firsts, owner)]  # type: ignore[attr-defined]
    reads = [source.parents[n] for n in uses if n not in writes]
    offsets = [_offset(r, fill) for r in reads]
    if any(o is None or o > begin for o in offsets):
        return []
    if any(o == 0 and source.span(r)[0] < source.span(owner)[1] for o, r in zip(offsets, reads, strict=True)):
        return []
    edits = [write(source, block[allocation].value, "[]")]  # type: ignore[attr-defined]
    for statement in (*firsts, owner):
        new = written(source, f"{base.id}.append({{value}})", value=statement.value)
        edits += instead(source, statement, [new])
    for read, offset in zip(reads, offsets, strict=True):
        index = f"{fill.variable} - {offset}" if offset else fill.variable
        if isinstance(read, ast.Subscript) and isinstance(read.slice, ast.Tuple):
            edits.append(write(source, read, f"{base.id}[{index}]"))
    torch = torch_name(source, owner)
    suffix = f", dim={dim}" if dim else ""
    edits += insert_after(source, loop, [f"{base.id} = {torch.text}.stack({base.id}{suffix})"])
    return [*edits, *torch.edits]


def _items(index: ast.expr) -> Sequence[ast.expr]:
    return index.elts if isinstance(index, ast.Tuple) else [index]


def _dimension(index: ast.expr, variable: str) -> int | None:
    """Which dimension ``[:, t]`` or ``[..., t]`` runs over; None where the index is anything else."""
    items = _items(index)
    at = [i for i, n in enumerate(items) if isinstance(n, ast.Name) and n.id == variable]
    if len(at) != 1 or any(not is_full(n) for i, n in enumerate(items) if i != at[0]):
        return None
    if any(isinstance(n, ast.Constant) for n in items[: at[0]]):
        return at[0] - len(items)
    return at[0]


def _range(node: ast.expr) -> tuple[int, ast.expr] | None:
    """``(k, N)`` of ``range(N)`` or ``range(k, N)`` with a number k."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "range"):
        return None
    if len(node.args) == 1:
        return 0, node.args[0]
    if len(node.args) == 2 and isinstance(node.args[0], ast.Constant) and isinstance(node.args[0].value, int):
        return node.args[0].value, node.args[1]
    return None


def _allocates(statement: ast.stmt, fill: _Fill, size: ast.expr) -> bool:
    """Whether the statement allocates a tensor whose filled dimension has exactly the loop's length."""
    call = statement.value if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return False
    if call.func.attr not in ("zeros", "empty", "ones", "new_zeros", "new_empty") or not call.args:
        return False
    first = call.args[0]
    sizes = first.elts if isinstance(first, ast.Tuple | ast.List) else call.args
    if any(isinstance(s, ast.Starred) for s in sizes) or not -len(sizes) <= fill.dim < len(sizes):
        return False
    return same(sizes[fill.dim], size)


def _constant_index(statement: ast.Assign) -> int | None:
    target = statement.targets[0]
    if not isinstance(target, ast.Subscript):
        return None
    items = [n for n in _items(target.slice) if not is_full(n)]
    one = items[0] if len(items) == 1 else None
    return one.value if isinstance(one, ast.Constant) and isinstance(one.value, int) else None


def _offset(node: ast.AST, fill: _Fill) -> int | None:
    """``c`` of a read ``base[t - c]`` in the layout of the writes; None for any other use."""
    if not isinstance(node, ast.Subscript) or not isinstance(node.ctx, ast.Load):
        return None
    items = _items(node.slice)
    at = fill.dim if fill.dim >= 0 else len(items) + fill.dim
    if not 0 <= at < len(items) or any(not is_full(n) for i, n in enumerate(items) if i != at):
        return None
    one: ast.expr = items[at]
    back: object = None
    if isinstance(one, ast.Name):
        back = 0
    elif isinstance(one, ast.BinOp) and isinstance(one.op, ast.Sub) and isinstance(one.right, ast.Constant):
        back = one.right.value
        one = one.left
    return back if isinstance(one, ast.Name) and one.id == fill.variable and isinstance(back, int) else None
