"""A tensor that a loop maps slice by slice, each slice from itself: new slices joined, or the value before a clone."""

from __future__ import annotations

import ast

from graphdoc.fixes.aliases import read_after, refuse_lost
from graphdoc.source.edits import copied, insert_before, instead, write, written
from graphdoc.source.module import Source
from graphdoc.source.paths import is_path, key, same
from graphdoc.source.places import Edit, Text
from graphdoc.source.scopes import fresh_name, is_rebindable, torch_name

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
    dim = _dimension(target.slice, loop.target.id)
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


def _dimension(index: ast.expr, variable: str) -> int | None:
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
