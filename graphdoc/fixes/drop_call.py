"""Take out what cuts the chain: ``.item()``, ``.detach()``, ``.data``, ``.cpu().numpy()``, ``float(x)``, ``Variable``.

A conversion that only makes sense with the other goes along (``torch.tensor(x.item())`` → ``x``). A statement
``loss.requires_grad = True`` or ``loss.requires_grad_()`` is removed. What was made a leaf for its gradient, and
has that read, retains it. A statement that would bind a name to itself goes.

Args:
    place: the call, the attribute access, or the statement.
"""

from __future__ import annotations

import ast

from graphdoc.fixes.contexts import last_name
from graphdoc.fixes.fix_kind import Args, CannotFix, Sources, place, required, statement
from graphdoc.source.edits import delete, insert_after, write
from graphdoc.source.module import Source
from graphdoc.source.paths import key
from graphdoc.source.places import Edit

KIND = "drop_call"

_WRAPPERS = frozenset(
    {"float", "int", "Variable", "tensor", "as_tensor", "from_numpy", "asarray", "array", "Tensor", "FloatTensor"}
    | {"stop_gradient"}
)
_METHODS = frozenset(
    {"item", "detach", "detach_", "numpy", "tolist", "cpu", "data", "requires_grad_", "long", "int", "round", "bool"}
)
# Only a step on the way out of the graph: dropped together with the step beside it.
_ALONG = frozenset({"detach", "cpu", "numpy", "data", "item", "tolist"})


def edit(sources: Sources, args: Args) -> list[Edit]:
    source, owner = statement(sources, required(args, "place"))
    if _cover_up(owner):
        return delete(source, owner)
    node = source.node_expression(place(args["place"]))
    if node is None and isinstance(getattr(owner, "value", None), ast.Call):
        node = owner.value  # type: ignore[attr-defined]
    core = _inside(node) if node is not None else None
    if node is None or core is None:
        raise CannotFix("no call that can be dropped stands exactly there")
    top = node
    while (deeper := _inside(core)) is not None and _is_step(core):
        core = deeper
    while (wider := _outside(source, top)) is not None:
        top = wider
    if isinstance(owner, ast.Expr) and owner.value is top:
        return delete(source, owner)  # ``h.detach_()`` alone: nothing else was done there
    kept = _gradient_kept(sources, source, owner, top)
    bound = [key(t) for t in owner.targets] if isinstance(owner, ast.Assign) and owner.value is top else []
    if bound == [key(core)] and not kept:
        return delete(source, owner)
    return [write(source, top, "{core}", core=core), *kept]


def _gradient_kept(sources: Sources, source: Source, owner: ast.stmt, top: ast.expr) -> list[Edit]:
    """``retain_grad()`` for what was made a leaf so that its ``.grad`` can be read: a result keeps none by itself, and
    refuses to where nothing is recorded."""
    flag = [k.value for k in top.keywords if k.arg == "requires_grad"] if isinstance(top, ast.Call) else []
    asked = any(isinstance(v, ast.Constant) and v.value is True for v in flag)
    if not asked or not isinstance(owner, ast.Assign) or owner.value is not top or len(owner.targets) != 1:
        return []
    name = ast.unparse(owner.targets[0])
    reads = (
        n
        for s in (sources.values() if isinstance(owner.targets[0], ast.Attribute) else [source])
        for n in (ast.walk(s.tree) if s.tree is not None else ())
        if isinstance(n, ast.Attribute) and n.attr == "grad" and isinstance(n.ctx, ast.Load)
    )
    if not any(ast.unparse(n.value) == name for n in reads):
        return []
    return insert_after(source, owner, [f"if {name}.requires_grad:\n    {name}.retain_grad()"])


def _cover_up(owner: ast.stmt) -> bool:
    if isinstance(owner, ast.Assign) and len(owner.targets) == 1:
        target = owner.targets[0]
        return isinstance(target, ast.Attribute) and target.attr == "requires_grad"
    return (
        isinstance(owner, ast.Expr) and isinstance(owner.value, ast.Call) and last_name(owner.value) == "requires_grad_"
    )


def _inside(node: ast.expr) -> ast.expr | None:
    """What stays when this call or attribute access is dropped."""
    if isinstance(node, ast.Call):
        if isinstance(node.func, ast.Attribute) and node.func.attr in _METHODS:
            return node.func.value
        if last_name(node) in _WRAPPERS and node.args and not isinstance(node.args[0], ast.Starred):
            return node.args[0]
        return None
    return node.value if isinstance(node, ast.Attribute) and node.attr == "data" else None


def _is_step(node: ast.expr) -> bool:
    return last_name(node) in _ALONG


def _outside(source: Source, node: ast.expr) -> ast.expr | None:
    """The conversion around this one that would fail or cut again without it."""
    above = source.parents.get(node)
    if isinstance(above, ast.Attribute):
        outer = source.parents.get(above)
        called = isinstance(outer, ast.Call) and outer.func is above
        if above.attr == "data" and not called:
            return above
        if (
            called
            and isinstance(outer, ast.Call)
            and above.attr in _ALONG
            and not (above.attr == "cpu" and not _leads_out(source, outer))
        ):
            return outer
    if isinstance(above, ast.Call) and above.args and above.args[0] is node and last_name(above) in _WRAPPERS:
        return above if last_name(above) not in ("int", "array", "asarray") else None
    return None


def _leads_out(source: Source, node: ast.expr) -> bool:
    above = source.parents.get(node)
    return isinstance(above, ast.Attribute) and above.attr in ("numpy", "tolist", "item", "detach", "data")
