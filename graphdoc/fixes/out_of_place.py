"""Compute a new tensor instead of writing into one that backward needs."""

from __future__ import annotations

import ast

from graphdoc.fixes.aliases import clone_whole, refuse_lost, written_name
from graphdoc.fixes.fix_kind import Args, CannotFix, Sources, kind, place, required, statement
from graphdoc.fixes.slice_writes import by_rows, clone_before, refuse_for_caller, rewrite, value_first
from graphdoc.source.edits import (
    bound,
    copied,
    drop_arguments,
    insert_before,
    instead,
    rename,
    set_keyword,
    write,
    written,
    written_out,
)
from graphdoc.source.expressions import NOT_A_WRITE, POSITIONS, REPLACEMENTS, WITHOUT_COUNTERPART, is_fresh
from graphdoc.source.module import Source
from graphdoc.source.paths import is_path, last_word, same, targets_of
from graphdoc.source.places import Edit
from graphdoc.source.scopes import is_list, is_read_later, is_rebindable, is_torchs, torch_name


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
    source, owner = statement(sources, required(args, "place"))
    node = source.node_expression(place(args["place"]))
    try:
        return _edit(source, owner, node, args)
    except CannotFix:
        name = "" if args.get("joined") else written_name(owner, node)
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
    if isinstance(node.func, ast.Attribute) and _writes(name) and not is_torchs(source, node.func.value):
        return _method(source, node, owner, args)
    flag = next((k for k in node.keywords if k.arg == "inplace"), None)
    if flag is not None and isinstance(flag.value, ast.Constant) and flag.value.value is True:
        known = name in POSITIONS or name == "partial"
        edits = drop_arguments(source, node, lambda _, k: k == "inplace") if known else []
        edits = edits or set_keyword(source, node, "inplace", "False")
        return [*edits, *_bind_first(source, node, owner, args)]
    at = POSITIONS.get(name)
    if at is not None and len(node.args) == at + 1 and getattr(node.args[at], "value", None) is True:
        dropped = drop_arguments(source, node, lambda i, k: i == at and k is None)
        return [*dropped, *_bind_first(source, node, owner, args)]
    out = next((k.value for k in node.keywords if k.arg == "out"), None)
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
    return name.endswith("_") and not name.startswith("_") and not name.endswith("__")


def _bind_first(source: Source, node: ast.Call, owner: ast.stmt, args: Args) -> list[Edit]:
    """A bare ``F.relu(x, inplace=True)`` changed x: ``x = F.relu(x)``."""
    if not isinstance(owner, ast.Expr) or owner.value is not node:
        return []
    if not node.args or not is_path(node.args[0]):
        raise CannotFix("the result would be lost")
    _refuse(source, owner, node.args[0], args)
    return bound(source, owner, copied(source, node.args[0]))


def _method(source: Source, node: ast.Call, owner: ast.stmt, args: Args) -> list[Edit]:
    chain = _chain(source, node)
    names = [c.func.attr for c in chain]  # type: ignore[attr-defined]
    root: ast.expr = chain[0].func.value  # type: ignore[attr-defined]
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
        return _part(source, owner, root, args)
    text = source.segment(root)
    if whole:
        _refuse(source, owner, root, args)
    else:
        refuse_for_caller(source, owner, root)
    if isinstance(root, ast.Name) and not is_rebindable(source, root.id, owner):
        raise CannotFix(f"{text} belongs to an enclosing scope and cannot be assigned here")
    if replaced:
        if not whole or len(chain) > 1:
            return clone_before(source, owner, text, bool(args.get("joined")))
        return _written_anew(source, owner, top, names[0], text)
    strip = [_without_underscore(source, c) for c in chain]
    if whole:
        return [*bound(source, owner, text), *strip]
    if not _needed_later(source, owner, root):
        return strip
    if isinstance(owner, ast.Assign) and owner.value is top:
        return [*bound(source, owner, text), *strip]
    if not isinstance(owner, ast.Return | ast.Assign | ast.Expr | ast.AnnAssign) or source.runs_apart(top, owner):
        raise CannotFix(f"{text} is used again after this expression")
    before = written(source, f"{text} = {{value}}", value=copied(source, top, strip))
    return [*insert_before(source, owner, [before]), write(source, top, text)]


def _part(source: Source, owner: ast.stmt, root: ast.expr, args: Args) -> list[Edit]:
    """The tensor behind a view that a method writes into: a list of its slices, or a clone of it before the write."""
    base = args.get("base") or _base(source, root)
    joined = bool(args.get("joined"))
    if isinstance(root, ast.Subscript) and args.get("mode") != "clone" and not joined:
        rows = by_rows(source, owner, root)
        if rows:
            return rows
    return value_first(source, owner, root, base) or clone_before(source, owner, base, joined)


def _chain(source: Source, node: ast.Call) -> list[ast.Call]:
    """The in-place calls made on one another, innermost first."""
    chain = [node]
    inner = node.func.value  # type: ignore[attr-defined]
    while isinstance(inner, ast.Call) and isinstance(inner.func, ast.Attribute) and _writes(inner.func.attr):
        chain.insert(0, inner)
        inner = inner.func.value
    while True:
        access = source.parents.get(chain[-1])
        outer = source.parents.get(access) if isinstance(access, ast.Attribute) else None
        if not (isinstance(access, ast.Attribute) and isinstance(outer, ast.Call) and outer.func is access):
            return chain
        if not _writes(access.attr):
            return chain
        chain.append(outer)


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


def _base(source: Source, root: ast.expr) -> str:
    """The tensor behind views: ``x`` of ``x[:, 0]``, ``x.view(-1)`` and ``x.data``."""
    while not isinstance(root, ast.Name):
        if isinstance(root, ast.Attribute) and root.attr not in ("data", "T", "mT", "real", "imag"):
            break
        inner = root.func if isinstance(root, ast.Call) else root
        if isinstance(root, ast.Call) and not isinstance(inner, ast.Attribute):
            break
        deeper = inner.value if isinstance(inner, ast.Attribute | ast.Subscript) else None
        if deeper is None:
            break
        root = deeper
    if not is_path(root) or is_torchs(source, root):
        raise CannotFix("the tensor that is written has no name here")
    return source.segment(root)


def _needed_later(source: Source, owner: ast.stmt, root: ast.expr) -> bool:
    """Whether the written tensor is read again under this name after the statement."""
    if not isinstance(root, ast.Name):
        return True
    if any(same(t, root) for t in targets_of(owner)) or isinstance(owner, ast.Return):
        return False
    return is_read_later(source, owner, root.id)
