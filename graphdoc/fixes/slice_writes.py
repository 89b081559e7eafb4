"""Writes into a part of a tensor: a list of its slices and ``torch.stack``, or a clone before the write."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from graphdoc.fixes.aliases import refuse_lost
from graphdoc.fixes.fix_kind import Args, CannotFix
from graphdoc.source.edits import (
    bound,
    copied,
    insert_after,
    insert_before,
    rename,
    write,
    written,
    written_out,
)
from graphdoc.source.expressions import NOT_A_WRITE, REPLACEMENTS, WITHOUT_COUNTERPART, is_full
from graphdoc.source.module import Source, each
from graphdoc.source.paths import bare_call, is_name, is_path, key, last_word, same, targets_of
from graphdoc.source.places import Edit, Text
from graphdoc.source.scopes import fresh_name, is_container, is_rebindable, parameters, torch_name


def value_first(source: Source, owner: ast.stmt, target: ast.expr, text: str) -> list[Edit]:
    """Compute the value, clone, then write, where the value is computed from the tensor itself; else none.

    What the computation saves is the tensor from before, which nothing writes into any more. The value is what is
    assigned (``y[i] = f(y)``, ``y[i] += f(y)``) or the one argument of an in-place method (``y[i].add_(f(y))``).
    """
    root = ast.parse(text, mode="eval").body
    value = _value(owner, target)
    if value is None or "\n" in source.segment(value):
        return []
    spelling = key(root)
    if not is_path(target) or not any(isinstance(n, type(root)) and key(n) == spelling for n in ast.walk(value)):
        return []
    if isinstance(root, ast.Name):
        refuse_lost(source, owner, root)
        if not is_rebindable(source, root.id, owner):
            return []
    name = fresh_name(source, "new", "new_value")
    lines: list[Text] = [
        written(source, f"{name} = {{value}}", value=copied(source, value)),
        f"{text} = {text}.clone()",
    ]
    return [*insert_before(source, owner, lines), write(source, value, name)]


def _value(owner: ast.stmt, target: ast.expr) -> ast.expr | None:
    """What a statement writes into the target; None where that is no single expression."""
    if isinstance(owner, ast.Assign):
        return owner.value if len(owner.targets) == 1 else None
    if isinstance(owner, ast.AugAssign):
        return owner.value
    call = bare_call(owner)
    if call is None or len(call.args) != 1 or call.keywords or isinstance(call.args[0], ast.Starred):
        return None
    return call.args[0] if isinstance(call.func, ast.Attribute) and call.func.value is target else None


_ABOUT = frozenset({"shape", "device", "dtype", "ndim", "size", "dim", "new_zeros", "new_ones", "new_tensor"})
"""Attributes that tell what kind of tensor it is, which the writes leave as it was."""
_REDUCING = frozenset({"mean", "sum", "prod", "max", "min", "norm", "std", "var"})
"""What is written into a slice by these may be one number for all of it."""
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
    number, and every write a new slice, or an addition, product or the like to what stood there.

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
    if isinstance(owner, ast.AugAssign | ast.Expr) and not _reads_another(slices, target):
        return []
    rows = fresh_name(source, "rows", "slices")
    edits: list[Edit] = []
    for node, found in slices.items():
        text = f"{rows}[{source.segment(found.at) if found.at is not None else '0'}]"
        edits.append(write(source, node, text))
        if isinstance(node.ctx, ast.Load) and not _is_receiver(source, node):
            continue
        own = _written(source, node, text)
        if own is None:
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
    return [n for s in loop.body for n in each(s, ast.stmt)]


def _counts(node: ast.expr) -> bool:
    """Whether a loop surely runs over whole numbers: ``range(…)``, ``reversed(range(…))``."""
    while isinstance(node, ast.Call) and is_name(node.func, "reversed") and node.args:
        node = node.args[0]
    return isinstance(node, ast.Call) and is_name(node.func, "range")


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


def _written(source: Source, node: ast.Subscript, text: str) -> list[Edit] | None:
    """What turns a write into the slice into a new slice in the list, beside the slice's own text; None where its shape
    might be another."""
    above = source.parents.get(node)
    if isinstance(above, ast.Assign):
        smaller = isinstance(above.value, ast.Constant | ast.Tuple) or (
            isinstance(above.value, ast.Call) and last_word(above.value.func) in _REDUCING
        )
        return [] if len(above.targets) == 1 and not smaller else None
    if isinstance(above, ast.AugAssign) and above.target is node:
        return written_out(source, above)
    if not isinstance(above, ast.Attribute) or above.attr in NOT_A_WRITE | WITHOUT_COUNTERPART | REPLACEMENTS.keys():
        return None
    call = source.parents.get(above)
    statement = source.parents.get(call) if call is not None else None
    if not isinstance(call, ast.Call) or call.func is not above or not isinstance(statement, ast.Expr):
        return None
    return [*bound(source, statement, text), rename(source, above, above.attr[:-1])]


def rewrite(source: Source, owner: ast.Assign | ast.AugAssign, target: ast.Subscript, args: Args) -> list[Edit]:
    """The best edit for ``base[index] = value``."""
    base: ast.expr = target.value
    while isinstance(base, ast.Subscript) and not _string_key(base) and not is_container(source, base.value):
        base = base.value
    text = args.get("base") or (source.segment(base) if is_path(base) else "")
    if not text:
        raise CannotFix("the tensor that is written has no name here")
    joined = bool(args.get("joined"))
    rows = by_rows(source, owner, target) if args.get("mode") != "clone" and not joined else []
    return rows or value_first(source, owner, target, text) or clone_before(source, owner, text, joined)


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
            raise CannotFix(f"{text} belongs to an enclosing scope and cannot be assigned here")
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
