"""Writes into a part of a tensor: ``torch.where``, a list and ``torch.stack``, or a clone before the write."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from graphdoc.fixes.aliases import read_after, refuse_lost
from graphdoc.fixes.fix_kind import Args, CannotFix
from graphdoc.source.edits import (
    bound,
    copied,
    insert_after,
    insert_before,
    instead,
    rename,
    write,
    written,
    written_out,
)
from graphdoc.source.expressions import NOT_A_WRITE, REPLACEMENTS, WITHOUT_COUNTERPART, is_full
from graphdoc.source.module import Source
from graphdoc.source.paths import is_path, key, same, targets_of
from graphdoc.source.places import Edit, Text
from graphdoc.source.scopes import fresh_name, is_container, is_rebindable, parameters, torch_name

_ELEMENTWISE = frozenset({"exp", "log", "sigmoid", "tanh", "relu", "abs", "sqrt", "square", "clamp", "sin", "cos"})


def mapped(source: Source, owner: ast.stmt, target: ast.Subscript) -> list[Edit]:
    """``x = torch.stack([… for i in range(x.shape[d])], dim=d)`` where the loop is just that; else none."""
    loop, base = source.parents.get(owner), target.value
    if not isinstance(owner, ast.Assign) or not isinstance(loop, ast.For) or loop.orelse or len(loop.body) != 1:
        return []
    if not isinstance(base, ast.Name) or not isinstance(loop.target, ast.Name) or "\n" in source.segment(owner):
        return []
    if "#" in source.code[slice(*source.span(loop))] or read_after(source, loop, loop.target.id, None):
        return []
    dim = _dimension_mapped(target.slice, loop.target.id)
    if dim is None or not _whole(loop.iter, base, dim) or not _of_itself(owner.value, target):
        return []
    others = [n for n in ast.walk(owner.value) if isinstance(n, ast.Name) and n.id == base.id]
    own = [n for n in ast.walk(owner.value) if isinstance(n, ast.Subscript) and same(n, target)]
    if len(others) != len(own) or not is_rebindable(source, base.id, owner):
        return []
    refuse_lost(source, loop, base)
    torch = torch_name(source, loop)
    end = f", dim={dim})" if dim else ")"
    template = f"{base.id} = {torch.text}.stack([{{value}} for {loop.target.id} in {{whole}}]{end}"
    return [*instead(source, loop, [written(source, template, value=owner.value, whole=loop.iter)]), *torch.edits]


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
    call = owner.value if isinstance(owner, ast.Expr) else None
    if not isinstance(call, ast.Call) or len(call.args) != 1 or call.keywords or isinstance(call.args[0], ast.Starred):
        return None
    return call.args[0] if isinstance(call.func, ast.Attribute) and call.func.value is target else None


def _dimension_mapped(index: ast.expr, variable: str) -> int | None:
    items = index.elts if isinstance(index, ast.Tuple) else [index]
    at = [i for i, n in enumerate(items) if isinstance(n, ast.Name) and n.id == variable]
    full = (
        isinstance(n, ast.Slice) and n.lower is n.upper is n.step is None for i, n in enumerate(items) if i not in at
    )
    return at[0] if len(at) == 1 and all(full) else None


def _whole(iterable: ast.expr, base: ast.Name, dim: int) -> bool:
    """Whether a loop runs over all of a dimension: ``range(x.shape[d])``, ``range(x.size(d))``, ``range(len(x))``."""
    texts = {f"range({base.id}.shape[{dim}])", f"range({base.id}.size({dim}))", f"range({base.id}.size(dim={dim}))"}
    return key(iterable) in texts | ({f"range(len({base.id}))"} if dim == 0 else set())


def _of_itself(node: ast.expr, target: ast.Subscript) -> bool:
    """Whether a value surely has the slice's shape: arithmetic in which the slice itself takes part."""
    if same(node, target):
        return True
    if isinstance(node, ast.BinOp) and not isinstance(node.op, ast.MatMult):
        return _of_itself(node.left, target) or _of_itself(node.right, target)
    if isinstance(node, ast.UnaryOp):
        return _of_itself(node.operand, target)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _ELEMENTWISE:
        return _of_itself(node.func.value, target) or any(_of_itself(a, target) for a in node.args[:1])
    return False


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
