"""A tensor that a loop moves on slice by slice out of its own other slices: a list of the slices, joined afterwards.

``y[:, i] += f(y[:, i - 1])`` in a loop has each step read what the step before wrote, and save it; every write raises
the one version that all slices share. In a list each slice is a tensor of its own.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

from graphdoc.fixes.aliases import refuse_lost
from graphdoc.source.edits import bound, insert_after, insert_before, rename, write, written_out
from graphdoc.source.in_place_names import NOT_A_WRITE, REPLACEMENTS, WITHOUT_COUNTERPART
from graphdoc.source.module import Source
from graphdoc.source.paths import same, targets_of
from graphdoc.source.places import Edit
from graphdoc.source.rows import is_full
from graphdoc.source.scopes import fresh_name, is_rebindable, torch_name

_ABOUT = frozenset({"shape", "device", "dtype", "ndim", "size", "dim", "new_zeros", "new_ones", "new_tensor"})
"""Attributes that tell what kind of tensor it is, which the writes leave as it was."""
_NESTED = (
    ast.Lambda,
    ast.FunctionDef,
    ast.AsyncFunctionDef,
    ast.ListComp,
    ast.SetComp,
    ast.DictComp,
    ast.GeneratorExp,
)


@dataclass(frozen=True)
class _Slice:
    """``y[:, i - 1]`` or ``y[:, i - 1:i]``: one position (``at``) in one dimension; ``wide`` where that is kept."""

    dim: int
    wide: bool
    at: ast.expr | None


def by_rows(source: Source, owner: ast.stmt, target: ast.Subscript) -> list[Edit]:
    """The edits for a list of slices and ``torch.stack`` or ``torch.cat`` behind the loop; none where it does not fit.

    Every use of the tensor in the loop has to be one whole slice at a distance from the loop's counter that is a
    number, and every write an addition, product or the like to what stood there, so that shapes stay as they are.

    Raises:
        CannotFix: the new tensor would be lost: the name stands for a part of something else.
    """
    loop, base = source.node_loop(owner), target.value
    if not isinstance(loop, ast.For) or loop.orelse or not isinstance(base, ast.Name):
        return []
    if not isinstance(loop.target, ast.Name) or not _counts(loop.iter) or not is_rebindable(source, base.id, loop):
        return []
    counter = loop.target.id
    if any(isinstance(t, ast.Name) and t.id in (counter, base.id) for s in _statements(loop) for t in targets_of(s)):
        return []
    slices = _slices(source, loop, base.id, counter)
    if not slices or len({(s.dim, s.wide) for s in slices.values()}) != 1:
        return []
    if not _reads_another(slices, target):
        return []
    rows = fresh_name(source, "rows", "slices")
    edits: list[Edit] = []
    for node, found in slices.items():
        text = f"{rows}[{source.segment(found.at) if found.at is not None else '0'}]"
        edits.append(write(source, node, text))
        if isinstance(node.ctx, ast.Load) and not _is_receiver(source, node):
            continue
        own = _written(source, node, text)
        if not own:
            return []
        edits += own
    refuse_lost(source, loop, base)
    found = next(iter(slices.values()))
    torch = torch_name(source, loop)
    dim = f", dim={found.dim}" if found.dim else ""
    taken = f"{base.id}.split(1{dim})" if found.wide else f"{base.id}.unbind({f'dim={found.dim}' if dim else ''})"
    joined = f"{torch.text}.{'cat' if found.wide else 'stack'}({rows}{dim})"
    edits += insert_before(source, loop, [f"{rows} = list({taken})"])
    edits += insert_after(source, loop, [f"{base.id} = {joined}"])
    return [*edits, *torch.edits]


def _statements(loop: ast.For) -> list[ast.stmt]:
    return [n for s in loop.body for n in ast.walk(s) if isinstance(n, ast.stmt)]


def _counts(node: ast.expr) -> bool:
    """Whether a loop surely runs over whole numbers: ``range(…)``, ``reversed(range(…))``."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "reversed" and node.args:
        node = node.args[0]
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "range"


def _slices(source: Source, loop: ast.For, name: str, counter: str) -> dict[ast.Subscript, _Slice]:
    """Every slice of the tensor that the loop's body reads or writes; none where it is used in any other way."""
    found: dict[ast.Subscript, _Slice] = {}
    for node in (n for s in loop.body for n in ast.walk(s)):
        if not isinstance(node, ast.Name) or node.id != name:
            continue
        above = source.parents.get(node)
        if isinstance(above, ast.Attribute) and above.attr in _ABOUT:
            continue
        one = _slice(above, counter) if isinstance(above, ast.Subscript) and above.value is node else None
        inner = next((a for a in source.node_ancestors(node) if a is loop or isinstance(a, _NESTED)), None)
        if one is None or inner is not loop or not isinstance(above, ast.Subscript):
            return {}
        found[above] = one
    return found


def _slice(node: ast.Subscript, counter: str) -> _Slice | None:
    items = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    single = [i for i, n in enumerate(items) if not is_full(n)]
    dots = [i for i, n in enumerate(items) if isinstance(n, ast.Constant) and n.value is Ellipsis]
    if len(single) != 1 or len(dots) > 1:
        return None
    at = single[0]
    dim = at - len(items) if dots and dots[0] < at else at
    one = items[at]
    if isinstance(one, ast.Slice):
        low, high = _distance(one.lower, counter), _distance(one.upper, counter)
        if one.step is not None or low is None or high != (low[0], low[1] + 1):
            return None
        return _Slice(dim, True, one.lower)
    return _Slice(dim, False, one) if _distance(one, counter) is not None else None


def _distance(node: ast.expr | None, counter: str) -> tuple[bool, int] | None:
    """``i - 1`` → (True, -1), ``2`` → (False, 2): from the counter or from the start; None for anything else."""
    if node is None:
        return False, 0
    if isinstance(node, ast.Constant) and type(node.value) is int and node.value >= 0:
        return False, node.value
    if isinstance(node, ast.Name):
        return (True, 0) if node.id == counter else None
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Add | ast.Sub):
        return None
    left, right = _distance(node.left, counter), _distance(node.right, counter)
    if left is None or right is None or right[0]:
        return None
    return left[0], left[1] + (right[1] if isinstance(node.op, ast.Add) else -right[1])


def _reads_another(slices: dict[ast.Subscript, _Slice], target: ast.Subscript) -> bool:
    """Whether the loop reads a slice other than the one that is written: else no step needs what another wrote."""
    return any(not same(node.slice, target.slice) for node in slices)


def _is_receiver(source: Source, node: ast.Subscript) -> bool:
    """Whether an in-place method is called on this slice."""
    access = source.parents.get(node)
    return isinstance(access, ast.Attribute) and access.attr.endswith("_") and not access.attr.endswith("__")


def _written(source: Source, node: ast.Subscript, text: str) -> list[Edit]:
    """What turns a write into the slice into a new slice in the list; none where its shape might be another."""
    above = source.parents.get(node)
    if isinstance(above, ast.AugAssign) and above.target is node:
        return written_out(source, above)
    if not isinstance(above, ast.Attribute) or above.attr in NOT_A_WRITE | WITHOUT_COUNTERPART | REPLACEMENTS.keys():
        return []
    call = source.parents.get(above)
    statement = source.parents.get(call) if call is not None else None
    if not isinstance(call, ast.Call) or call.func is not above or not isinstance(statement, ast.Expr):
        return []
    return [*bound(source, statement, text), rename(source, above, above.attr[:-1])]
