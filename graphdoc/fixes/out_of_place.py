"""Compute a new tensor instead of writing into one: as a whole, a list of slices that are joined, or a clone."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from graphdoc.fixes.aliases import clone_whole, refuse_lost, viewed, written_name
from graphdoc.fixes.fix_kind import Args, CannotFix, Sources, both_at, kind, required
from graphdoc.source.edits import (
    bound,
    copied,
    drop_arguments,
    insert_after,
    insert_before,
    instead,
    rename,
    set_keyword,
    write,
    written,
    written_out,
)
from graphdoc.source.expressions import NOT_A_WRITE, POSITIONS, REPLACEMENTS, WITHOUT_COUNTERPART, is_fresh, is_full
from graphdoc.source.module import Function, MethodCall, Source, each, is_method_call, keyword, walked
from graphdoc.source.paths import is_constant, is_in_place, is_name, is_path, key, last_word, same, targets_of
from graphdoc.source.places import Edit, Text
from graphdoc.source.scopes import (
    fresh_name,
    is_container,
    is_list,
    is_read_later,
    is_rebindable,
    is_torchs,
    parameters,
    torch_name,
)


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
    if not is_path(target) or not any(key(n) == spelling for n in each(value, type(root))):
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
    match owner:
        case ast.Assign(targets=[_], value=value) | ast.AugAssign(value=value):
            return value
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=on), args=[value], keywords=[])) if on is target:
            return None if isinstance(value, ast.Starred) else value
    return None


_ABOUT = frozenset({"shape", "device", "dtype", "ndim", "size", "dim", "new_zeros", "new_ones", "new_tensor"})
"""Attributes that tell what kind of tensor it is, which the writes leave as it was."""
_REDUCING = frozenset({"mean", "sum", "prod", "max", "min", "norm", "std", "var"})
"""What is written into a slice by these may be one number for all of it."""
_NESTED = Function | ast.Lambda | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


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
    """
    loop, base = source.node_loop(owner), target.value
    if not isinstance(loop, ast.For) or loop.orelse or not isinstance(base, ast.Name):
        return []
    if not isinstance(loop.target, ast.Name) or not _counts(loop.iter) or not is_rebindable(source, base.id, loop):
        return []
    counter = loop.target.id
    inside = (s for b in loop.body for s in each(b, ast.stmt))
    if any(isinstance(t, ast.Name) and t.id in (counter, base.id) for s in inside for t in targets_of(s)):
        return []
    slices = _slices(source, loop, base.id, counter)
    # Where the loop reads no slice but the one that is written, no step needs what another wrote.
    idle = isinstance(owner, ast.AugAssign | ast.Expr) and all(same(n.slice, target.slice) for n in slices)
    if idle or len({(s.dim, s.wide) for s in slices.values()}) != 1:
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


def _counts(node: ast.expr) -> bool:
    """Whether a loop surely runs over whole numbers: ``range(…)``, ``reversed(range(…))``."""
    while isinstance(node, ast.Call) and is_name(node.func, "reversed") and node.args:
        node = node.args[0]
    return isinstance(node, ast.Call) and is_name(node.func, "range")


def _slices(source: Source, loop: ast.For, name: str, counter: str) -> dict[ast.Subscript, _Slice]:
    """Every slice of the tensor that the loop's body reads or writes; none where it is used in any other way."""
    found: dict[ast.Subscript, _Slice] = {}
    for node in (n for s in loop.body for n in walked(s)):
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


def _is_receiver(source: Source, node: ast.Subscript) -> bool:
    """Whether an in-place method is called on this slice."""
    access = source.parents.get(node)
    return isinstance(access, ast.Attribute) and is_in_place(access.attr)


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
    call = source.node_method_of(node)
    statement = source.parents.get(call) if call is not None else None
    if call is None or not isinstance(statement, ast.Expr):
        return None
    if call.func.attr in NOT_A_WRITE | WITHOUT_COUNTERPART | REPLACEMENTS.keys():
        return None
    return [*bound(source, statement, text), _without_underscore(source, call)]


def rewrite(source: Source, owner: ast.Assign | ast.AugAssign, target: ast.Subscript, args: Args) -> list[Edit]:
    """The best edit for ``base[index] = value``."""
    base: ast.expr = target.value
    while isinstance(base, ast.Subscript) and not _string_key(base) and not is_container(source, base.value):
        base = base.value
    text = args.get("base") or (source.segment(base) if is_path(base) else "")
    if not text:
        raise CannotFix("the tensor that is written has no name here")
    return _part(source, owner, target, text, args)


def _string_key(node: ast.Subscript) -> bool:
    return isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str)


def refuse_for_caller(source: Source, at: ast.stmt, target: ast.expr) -> None:
    """Refuse where the write is what a function is called for: into its parameter, and nothing is returned."""
    function = source.node_function(at)
    if function is None or not isinstance(target, ast.Name) or target.id not in parameters(function):
        return
    if not any(n.value is not None for n in each(function, ast.Return, ast.Yield)):
        raise CannotFix(f"{function.name} is called for what it writes into {target.id}: a copy would be lost")


def clone_before(source: Source, owner: ast.stmt, text: str, joined: bool = False) -> list[Edit]:
    """``text = text.clone()`` before a write, or before the first of a run of writes into the same tensor."""
    root = ast.parse(text, mode="eval").body
    if isinstance(root, ast.Name):
        refuse_for_caller(source, owner, root)
        if not joined:
            refuse_lost(source, owner, root)
        if not is_rebindable(source, root.id, owner):
            raise CannotFix(f"{text} belongs to an enclosing scope and cannot be assigned here")
    block, index = source.node_block(owner)
    while index > 0 and _writes_into(block[index - 1], root) and not _reads(block[index], root):
        index -= 1
    before = block[index - 1] if index else None
    if isinstance(before, ast.Assign) and ast.unparse(before) == ast.unparse(ast.parse(f"{text} = {text}.clone()")):
        raise CannotFix(f"{text} is already cloned there")
    return insert_before(source, block[index], [f"{text} = {text}.clone()"])


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
    return any(key(n) == spelling for n in each(value, type(base)))


# Compute a new tensor instead of writing into one that backward needs.


@kind("out_of_place", keeps_numbers=True, only_records=True)
def out_of_place(sources: Sources, args: Args) -> list[Edit]:
    """Compute a new tensor instead of writing into one that backward needs.

    ``x += y`` → ``x = x + y``; ``x.relu_()`` → ``x = x.relu()`` (chains too); ``F.relu(x, inplace=True)`` and
    ``nn.ReLU(True)`` lose the flag; a slice write gets ``y = y.clone()`` before it; a tensor that a loop fills or
    moves on slice by slice becomes a list of its slices, and behind the loop their stack.

    Args:
        place: the write: the whole statement (``x += y``), the subscript that is assigned, the call of the method or of
            the function or class with ``inplace``. Without columns: the one statement of that line.
        mode: ``"auto"`` (default), or ``"clone"``: only clone the tensor before the write.
        base: optional; the text of the tensor that is written, where it is not the whole path before the last
            subscript.
        joined: True where the new pieces are joined again by the caller, so that a loop variable may be bound anew.
        container: True where an item of a dict or list is assigned (``d[k] += v``), False where it is a part of a
            tensor; by default True for a string key, and for an item of what the source writes out as a list.
        caller: True where the function writes into what it was given and its caller takes up what it returns: the
            tensor that was given then keeps its numbers.
    """
    source, owner, node = both_at(sources, required(args, "place"))
    try:
        return _edit(source, owner, node, args)
    except CannotFix:
        name = "" if args.get("joined") else written_name(owner)
        whole = clone_whole(source, owner, name) if name else []
        if not whole:
            raise
        return whole


def _edit(source: Source, owner: ast.stmt, node: ast.expr | None, args: Args) -> list[Edit]:
    if node is None and isinstance(owner, ast.Expr | ast.Return | ast.Assign) and isinstance(owner.value, ast.Call):
        writes = _writes(last_word(owner.value.func)) or any(k.arg in ("inplace", "out") for k in owner.value.keywords)
        node = owner.value if writes or _subscript(owner, None) is None else None
    if isinstance(node, ast.Call):
        return _call(source, node, owner, args)
    if isinstance(owner, ast.AugAssign) and (node is None or node is owner.target):
        return _augmented(source, owner, args)
    part = _subscript(owner, node)
    if part is not None and isinstance(owner, ast.Assign):
        return rewrite(source, owner, part, args)
    raise CannotFix("nothing is written in place there")


def _subscript(owner: ast.stmt, node: ast.expr | None) -> ast.Subscript | None:
    found = [t for t in targets_of(owner) if isinstance(t, ast.Subscript)]
    if isinstance(node, ast.Subscript) and node in found:
        return node
    return found[0] if node is None and len(found) == 1 else None


def _augmented(source: Source, owner: ast.AugAssign, args: Args) -> list[Edit]:
    target = owner.target
    if not is_path(target):
        raise CannotFix("the target would have to be computed twice")
    if isinstance(target, ast.Subscript):
        container = args.get("container")
        if container is None:
            container = isinstance(target.slice, ast.Constant) and isinstance(target.slice.value, str)
        if not container and not is_list(source, target.value):
            return rewrite(source, owner, target, args)
    if args.get("mode") == "clone":
        return clone_before(source, owner, source.segment(target), bool(args.get("joined")))
    _refuse(source, owner, target, args)
    return written_out(source, owner)


def _call(source: Source, node: ast.Call, owner: ast.stmt, args: Args) -> list[Edit]:
    name = last_word(node.func)
    if is_method_call(node) and _writes(name) and not is_torchs(source, node.func.value):
        return _method(source, node, owner, args)
    if is_constant(keyword(node, "inplace"), True):
        known = name in POSITIONS or name == "partial"
        edits = drop_arguments(source, node, lambda _, k: k == "inplace") if known else []
        edits = edits or set_keyword(source, node, "inplace", "False")
        return [*edits, *_bind_first(source, node, owner, args)]
    at = POSITIONS.get(name)
    if at is not None and len(node.args) == at + 1 and getattr(node.args[at], "value", None) is True:
        dropped = drop_arguments(source, node, lambda i, k: i == at and k is None)
        return [*dropped, *_bind_first(source, node, owner, args)]
    out = keyword(node, "out")
    if out is not None and is_path(out) and isinstance(owner, ast.Expr) and owner.value is node:
        drop = drop_arguments(source, node, lambda _, k: k == "out")
        return [*bound(source, owner, copied(source, out)), *drop]
    if _writes(name) and node.args:  # torch.relu_(x), F.relu_(x)
        return [*_bind_first(source, node, owner, args), rename(source, node.func, name[:-1])]
    raise CannotFix("the call does not write in place")


def _refuse(source: Source, owner: ast.stmt, target: ast.expr, args: Args) -> None:
    """Refuse where binding the name anew would keep the write from who is to see it."""
    refuse_for_caller(source, owner, target)
    if not args.get("joined"):
        refuse_lost(source, owner, target)


def _writes(name: str) -> bool:
    return is_in_place(name) and not name.startswith("_")


def _bind_first(source: Source, node: ast.Call, owner: ast.stmt, args: Args) -> list[Edit]:
    """A bare ``F.relu(x, inplace=True)`` changed x: ``x = F.relu(x)``."""
    if not isinstance(owner, ast.Expr) or owner.value is not node:
        return []
    if not node.args or not is_path(node.args[0]):
        raise CannotFix("the result would be lost")
    _refuse(source, owner, node.args[0], args)
    return bound(source, owner, copied(source, node.args[0]))


def _method(source: Source, node: MethodCall, owner: ast.stmt, args: Args) -> list[Edit]:
    chain = _chain(source, node)
    names = [c.func.attr for c in chain]
    root = chain[0].func.value
    top = chain[-1]
    if any(n in NOT_A_WRITE for n in names):
        raise CannotFix(f"{names[0]} writes no element of the tensor")
    whole = isinstance(owner, ast.Expr) and owner.value is top
    part = isinstance(root, ast.Subscript) and not args.get("container") and not is_list(source, root.value)
    simple = is_path(root) and not part
    replaced = names[0] in REPLACEMENTS
    if is_fresh(root) and not whole:
        # No name holds what was computed here: where the method has no counterpart, a clone of it is another fix.
        if args.get("mode") == "clone" or replaced or any(n in WITHOUT_COUNTERPART for n in names):
            raise CannotFix("the tensor that is written has no name here")
        return [_without_underscore(source, c) for c in chain]
    if args.get("mode") == "clone" or not simple or any(n in WITHOUT_COUNTERPART for n in names):
        return _part(source, owner, root, args.get("base") or _whole(source, root), args)
    text = source.segment(root)
    if whole:
        _refuse(source, owner, root, args)
    else:
        refuse_for_caller(source, owner, root)
    if isinstance(root, ast.Name) and not is_rebindable(source, root.id, owner):
        raise CannotFix(f"{text} belongs to an enclosing scope and cannot be assigned here")
    if replaced and whole and len(chain) == 1:
        return _written_anew(source, owner, top, names[0], text)
    if replaced:
        return clone_before(source, owner, text, bool(args.get("joined")))
    strip = [_without_underscore(source, c) for c in chain]
    needed = whole or _needed_later(source, owner, root)
    return _bound_anew(source, owner, top, text, strip) if needed else strip


def _bound_anew(source: Source, owner: ast.stmt, top: ast.expr, text: str, strip: list[Edit]) -> list[Edit]:
    """What methods without their underscore give, under the name of their tensor."""
    if isinstance(owner, ast.Expr | ast.Assign) and owner.value is top:
        return [*bound(source, owner, text), *strip]
    if not isinstance(owner, ast.Return | ast.Assign | ast.Expr | ast.AnnAssign) or source.runs_apart(top, owner):
        raise CannotFix(f"{text} is used again after this expression")
    before = written(source, f"{text} = {{value}}", value=copied(source, top, strip))
    return [*insert_before(source, owner, [before]), write(source, top, text)]


def _part(source: Source, owner: ast.stmt, part: ast.expr, text: str, args: Args) -> list[Edit]:
    """Of the tensor whose part is written a list of its slices, or a clone before the write."""
    joined = bool(args.get("joined"))
    if isinstance(part, ast.Subscript) and args.get("mode") != "clone" and not joined:
        rows = by_rows(source, owner, part)
        if rows:
            return rows
    return value_first(source, owner, part, text) or clone_before(source, owner, text, joined)


def _chain(source: Source, node: MethodCall) -> list[MethodCall]:
    """The in-place calls made on one another, innermost first."""
    chain = [node]
    inner = node.func.value
    while is_method_call(inner) and _writes(inner.func.attr):
        chain.insert(0, inner)
        inner = inner.func.value
    while (outer := source.node_method_of(chain[-1])) is not None and _writes(outer.func.attr):
        chain.append(outer)
    return chain


def _without_underscore(source: Source, node: ast.Call) -> Edit:
    return rename(source, node.func, last_word(node.func)[:-1])


def _written_anew(source: Source, owner: ast.stmt, top: ast.Call, name: str, text: str) -> list[Edit]:
    torch = torch_name(source, top)
    wanted = {"zero_": 0, "fill_": 1, "copy_": 1}[name]
    if len(top.args) != wanted or top.keywords:
        raise CannotFix(f"{name} is called with arguments that its replacement does not take")
    template = REPLACEMENTS[name].format(torch=torch.text, x=text, a="{given}")
    new = written(source, f"{text} = {template}", **({"given": top.args[0]} if wanted else {}))
    return [*instead(source, owner, [new]), *(torch.edits if name != "copy_" else ())]


def _whole(source: Source, root: ast.expr) -> str:
    """The tensor of which views are written: ``x`` of ``x[:, 0]``, ``x.view(-1)`` and ``x.data``."""
    base = viewed(source, root)
    if base is None or is_torchs(source, base):
        raise CannotFix("the tensor that is written has no name here")
    return source.segment(base)


def _needed_later(source: Source, owner: ast.stmt, root: ast.expr) -> bool:
    """Whether the written tensor is read again under this name after the statement."""
    if not isinstance(root, ast.Name):
        return True
    if any(same(t, root) for t in targets_of(owner)) or isinstance(owner, ast.Return):
        return False
    return is_read_later(source, owner, root.id)
