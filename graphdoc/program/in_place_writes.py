"""What the source says of an in-place write: its target, other names of that, and which operand was saved."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from graphdoc.evidence import Evidence, Frame, SourceTexts
from graphdoc.program.bindings import expression_at, frame_of, function_at, scope_at, source_at, statement_at
from graphdoc.program.container_entries import statements, statements_at
from graphdoc.source.module import Function, Source, each, is_method_call, keyword, receiver_of
from graphdoc.source.paths import (
    bare_call,
    called,
    covers,
    is_in_place,
    is_name,
    is_read,
    key,
    pairs,
    sole_target,
    targets_of,
    without_subscripts,
    words,
)
from graphdoc.source.scopes import binds, is_list, is_read_later, is_torchs, parameters

_SHARES = words(
    """
    view view_as reshape flatten unflatten squeeze unsqueeze expand expand_as permute transpose swapaxes movedim t
    narrow select chunk split unbind unfold diagonal detach contiguous to cuda cpu float double type type_as
    requires_grad_ get pop
    """
)
"""Methods that give the same memory, or may, or a part of it; and those that take an item out of a container."""
_VIEWS = frozenset({"data", "T", "mT", "H", "mH", "real", "imag"})


@dataclass(frozen=True)
class Target:
    """What a write goes into: ``path`` as the program spells it (``self.state``), empty where it is no plain path.

    ``sliced``: a part of the tensor is written. ``kept``: the path reaches it through an object, so it outlives the
    call. ``local``: a plain name is assigned again in the loop or function that writes. ``whole``: the write is a
    statement of its own, so nothing uses its value. ``parameter``: it is an argument of the function around.
    ``alias``: it is another name for such an argument (``out = x``). ``item``: the entry of a list that ``path`` stands
    for, which is the tensor.
    """

    path: str = ""
    sliced: bool = False
    kept: bool = False
    local: bool = False
    whole: bool = False
    parameter: bool = False
    alias: bool = False
    item: str = ""


def target_of(run: Evidence, frame: Frame | None) -> Target:
    """What the statement at this place writes into."""
    found = _write_at(run.sources, frame)
    if found is None or frame is None:
        return Target()
    source, owner, written = found
    sliced, item = False, ""
    node: ast.expr = written
    while not isinstance(node, ast.Name):
        if isinstance(node, ast.Subscript):
            if isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str):
                break
            sliced = True
            item = ast.unparse(node) if is_list(source, node.value) else item
            node = node.value
        elif isinstance(node, ast.Attribute):
            if node.attr not in _VIEWS:
                break
            node = node.value
        elif is_method_call(node) and not is_torchs(source, node.func.value):
            if _SHARES.isdisjoint({node.func.attr}) and not node.func.attr.endswith("_"):
                return Target(sliced=sliced)  # what ``v.add(1)`` gave is written, and has no name
            node = node.func.value
        else:
            return Target(sliced=sliced)
    whole = isinstance(owner, ast.AugAssign | ast.Assign) or bare_call(owner) is not None
    if isinstance(owner, ast.Assign) and not any(isinstance(t, ast.Subscript) for t in owner.targets):
        whole = False
    if not isinstance(node, ast.Name):
        return Target(ast.unparse(node), sliced, True, False, whole)
    around = source.node_loop(owner) or source.node_function(owner)
    function = source.node_function(owner)
    parameter = function is not None and node.id in parameters(function)
    local = around is not None and binds(around, node.id, in_place=False)
    if function is not None and not local:
        # Bound before the loop: data of this call, unless the call is still running when backward fails.
        running = {f.function for f in run.raised.stack} if run.raised else set()
        local = frame.function not in running and binds(function, node.id, in_place=False)
    alias = function is not None and not parameter and _is_alias(function, node.id)
    return Target(node.id, sliced, False, local, whole, parameter, alias, item)


def _is_alias(function: Function, name: str) -> bool:
    """Whether all that a function binds to a name is one of its own arguments as it was passed."""
    bound = [n for n in each(function, ast.stmt) if any(key(t) == name for t in targets_of(n))]
    anew = (n for n in bound if not isinstance(n, ast.AugAssign))  # that is in place, for a tensor
    values = [n.value if isinstance(n, ast.Assign) and sole_target(n) else None for n in anew]
    given = [n for n in parameters(function) if not binds(function, n, in_place=False)]
    return bool(bound) and all(isinstance(v, ast.Name) and v.id in given for v in values)


def _write_at(sources: SourceTexts, frame: Frame | None) -> tuple[Source, ast.stmt, ast.expr] | None:
    """The statement at a place and the expression that it writes into."""
    source, owner, node = source_at(sources, frame), statement_at(sources, frame), expression_at(sources, frame)
    if isinstance(owner, ast.AugAssign):
        return source, owner, owner.target
    parts = [t for t in owner.targets if isinstance(t, ast.Subscript)] if isinstance(owner, ast.Assign) else []
    if owner is not None and parts and not isinstance(node, ast.Call):
        return source, owner, next((t for t in parts if t is node), parts[0])
    call = node if isinstance(node, ast.Call) else getattr(owner, "value", None)
    if owner is None or not isinstance(call, ast.Call):
        return None
    own = receiver_of(call) if called(call).endswith("_") else None
    own = None if own is not None and is_torchs(source, own) else own
    first = [a for a in call.args[:1] if not isinstance(a, ast.Starred)]
    written = keyword(call, "out") or own or next(iter(first), None)
    return (source, owner, written) if written is not None else None


def is_statement(sources: SourceTexts, frame: Frame | None) -> bool:
    """Whether an in-place write visibly stands at this place, rather than inside what is called there."""
    found, node = _write_at(sources, frame), expression_at(sources, frame)
    owner = found[1] if found is not None else None
    if isinstance(owner, ast.Assign) and not isinstance(node, ast.Call):
        return any(isinstance(t, ast.Subscript) for t in owner.targets)
    call = node if isinstance(node, ast.Call) else getattr(owner, "value", None)
    flagged = isinstance(call, ast.Call) and keyword(call, "inplace", "out") is not None
    named = called(call).endswith("_") and not called(call).startswith("_")
    return isinstance(owner, ast.AugAssign) or (owner is not None and (flagged or named))


def uses_gradient(sources: SourceTexts, frame: Frame | None) -> bool:
    """Whether the statement at this place reads some ``.grad``: an update written by hand."""
    found = _write_at(sources, frame)
    return found is not None and any(n.attr == "grad" for n in each(found[1], ast.Attribute))


def operands_named(sources: SourceTexts, frame: Frame | None, name: str) -> list[str]:
    """The spellings of a tensor in the expression at this place: paths that end as ``name`` does (``self.queue``)."""
    last, found = _last(name), dict[str, None]()
    node: ast.AST | None = expression_at(sources, frame) or statement_at(sources, frame)
    todo = [node] if node is not None and last else []
    for part in todo:
        path = isinstance(part, ast.Attribute | ast.Name | ast.Subscript) and is_read(part)
        if path and _last(key(part)) == last:
            found[key(part)] = None
        else:
            todo += ast.iter_child_nodes(part)
    return list(found)


def _last(path: str) -> str:
    """The last step of a path with the keys behind it: ``queue`` of ``model.queue``, ``stats["h"]`` of itself."""
    head, bracket, keys = path.partition("[")
    return head.rpartition(".")[2] + (bracket + keys).replace('"', "'")


def bound_before(sources: SourceTexts, frame: Frame | None, name: str) -> Frame | None:
    """The last statement above this line, in the same function, that binds a plain name; None where that stands in a
    branch of which the line does not tell whether it was taken."""
    scope = scope_at(sources, frame)
    if frame is None or not name.isidentifier():
        return None
    above = (n for n in each(scope, ast.Assign, ast.AnnAssign, ast.For) if n.lineno < frame.line)
    found = [n for n in above if any(is_name(t, name) for t in targets_of(n))]
    for best in sorted(found, key=lambda n: n.lineno, reverse=True):
        sides = [(_side(t, best.lineno), _side(t, frame.line)) for t in each(scope, ast.If) if _side(t, best.lineno)]
        if not any(here and made != here for made, here in sides):  # else it is the other branch of one ``if``
            value = best.iter if isinstance(best, ast.For) else best.value
            at = frame_of(sources, frame, value if value is not None else best)
            return at if all(made == here for made, here in sides) else None
    return None


def _side(test: ast.If, line: int) -> str:
    """The branch of an ``if`` that a line stands in; empty where it stands in none."""
    if any(covers(s, line) for s in test.body):
        return "then"
    return "else" if any(covers(s, line) for s in test.orelse) else ""


def is_only_written(sources: SourceTexts, frame: Frame | None) -> bool:
    """Whether an expression is taken to be written into and no more: ``layer.bias.data.zero_()`` and
    ``nn.init.zeros_(layer.bias.data)`` as statements of their own. Nothing goes on from it."""
    source, node = source_at(sources, frame), expression_at(sources, frame)
    call = bare_call(source.node_owner(node)) if node is not None else None
    if call is None or node is None or not is_in_place(called(call)):
        return False
    return receiver_of(call) is node or (call.args[:1] == [node] and "init" in key(call.func).split(".")[:-1])


# Other names of a tensor that is written in place: who reads one of them later sees what was written.


def read_by_another_name(sources: SourceTexts, frame: Frame | None, name: str) -> str:
    """The name that is the same tensor as ``name`` at this place (``h = x`` or ``res = h`` above) and is read behind it
    in the same function, or ``name`` itself where the result of the write goes by another one; empty where there is
    none. Statements are taken in the order of their lines."""
    scope = function_at(sources, frame)
    if frame is None or scope is None or not name.isidentifier():
        return ""
    others: dict[str, None] = {}
    above = (s for s in statements(scope) if s.lineno < frame.line and not isinstance(s, ast.AugAssign))
    for statement in sorted(above, key=lambda s: s.lineno):  # that one is in place, for a tensor
        bound = {t.id for t in targets_of(statement) if isinstance(t, ast.Name)}
        others = {} if name in bound else {n: None for n in others if n not in bound}
        for target, value in pairs(statement):
            if isinstance(target, ast.Name) and isinstance(value, ast.Name) and name in (target.id, value.id):
                others[value.id if target.id == name else target.id] = None
    writing = [s for s in statements_at(sources, frame) if isinstance(s, ast.Assign)]
    if any(not any(is_name(without_subscripts(t), name) for t in targets_of(s)) for s in writing):
        others[name] = None  # the result goes by another name than what was written: ``h = act(x)``
    source, at = source_at(sources, frame), statement_at(sources, frame)
    return next((other for other in others if at is not None and is_read_later(source, at, other)), "")


# Which operand of an expression an operation has saved, by the name that PyTorch gives to what it saves.

_FIRST = frozenset({"self", "input"})
_SECOND = frozenset({"other", "mat2", "batch2", "vec", "tensor2"})
"""Names of arguments in derivatives.yaml (tools/autograd): the tensor itself, and the one that it is combined with."""
_MADE_OF = {
    "matmul": ("mm", "bmm", "mv", "dot"),
    "norm": ("linalgvectornorm",),
    "vector_norm": ("linalgvectornorm",),
    "square": ("pow",),
}
"""Functions that are recorded as another one (CompositeImplicitAutograd in native_functions.yaml)."""
_OPERATIONS = (ast.Mult, ast.MatMult, ast.Div)


def saved_operand(sources: SourceTexts, frame: Frame, op: str, attribute: str) -> Frame | None:
    """The place of the operand in the expression at a place; None where the expression is not the operation itself.

    ``op`` is the node's name (``MmBackward0``), ``attribute`` what it has saved (``_saved_self``, ``_saved_mat2``).
    """
    saved = attribute.removeprefix("_saved_")
    which = 0 if saved in _FIRST else 1 if saved in _SECOND else None
    source, node = source_at(sources, frame), expression_at(sources, frame)
    operands: list[ast.expr] = []
    if isinstance(node, ast.BinOp) and isinstance(node.op, _OPERATIONS):
        operands = [node.left, node.right]
    elif is_method_call(node) and _is(node.func.attr, op):
        library = is_torchs(source, node.func.value)
        operands = [*([] if library else [node.func.value]), *node.args]
    if which is None or which >= len(operands) or isinstance(operands[which], ast.Starred | ast.Constant):
        return None
    return frame_of(sources, frame, operands[which])


def _is(method: str, op: str) -> bool:
    """Whether a function or method of this name is the operation that the node is of, or is made of it."""
    name = op.partition("Backward")[0].lower()
    return method.replace("_", "") == name or name in _MADE_OF.get(method, ())
