"""What the source says of an in-place write: its target, other names of that, and which operand was saved."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from graphdoc.evidence import Evidence, Frame, SourceTexts
from graphdoc.program.bindings import expression_at, frame_of, function_at, scope_at, source_at, statement_at
from graphdoc.program.container_entries import statements
from graphdoc.source.module import Source, each, is_method_call, receiver_of
from graphdoc.source.paths import (
    bare_call,
    covers,
    is_in_place,
    is_name,
    is_read,
    key,
    last_word,
    pairs,
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


def _is_alias(function: ast.FunctionDef | ast.AsyncFunctionDef, name: str) -> bool:
    """Whether all that a function binds to a name is one of its own arguments as it was passed."""
    given = parameters(function)
    bound = [n for n in each(function, ast.stmt) if any(key(t) == name for t in targets_of(n))]
    if not bound:
        return False
    for n in bound:
        value = n.value if isinstance(n, ast.Assign) and len(n.targets) == 1 else None
        if isinstance(n, ast.AugAssign):  # in place, for a tensor
            continue
        if not isinstance(value, ast.Name) or value.id not in given or binds(function, value.id, in_place=False):
            return False
    return True


def _write_at(sources: SourceTexts, frame: Frame | None) -> tuple[Source, ast.stmt, ast.expr] | None:
    """The statement at a place and the expression that it writes into."""
    source, owner, node = source_at(sources, frame), statement_at(sources, frame), expression_at(sources, frame)
    if owner is None:
        return None
    if isinstance(owner, ast.AugAssign):
        return source, owner, owner.target
    if isinstance(owner, ast.Assign):
        parts = [t for t in owner.targets if isinstance(t, ast.Subscript)]
        if parts and not isinstance(node, ast.Call):
            return source, owner, next((t for t in parts if t is node), parts[0])
    if not isinstance(node, ast.Call):
        value = getattr(owner, "value", None)
        node = value if isinstance(value, ast.Call) else None
    if node is None:
        return None
    out = next((k.value for k in node.keywords if k.arg == "out"), None)
    own = receiver_of(node) if last_word(node.func).endswith("_") else None
    own = None if own is not None and is_torchs(source, own) else own
    first = node.args[0] if node.args and not isinstance(node.args[0], ast.Starred) else None
    written = out or own or first
    return (source, owner, written) if written is not None else None


def is_statement(sources: SourceTexts, frame: Frame | None) -> bool:
    """Whether an in-place write visibly stands at this place, rather than inside what is called there."""
    found = _write_at(sources, frame)
    if found is None or frame is None:
        return False
    owner, node = found[1], expression_at(sources, frame)
    if isinstance(owner, ast.AugAssign | ast.Delete):
        return True
    if isinstance(owner, ast.Assign) and not isinstance(node, ast.Call):
        return any(isinstance(t, ast.Subscript) for t in owner.targets)
    call = node if isinstance(node, ast.Call) else getattr(owner, "value", None)
    if not isinstance(call, ast.Call):
        return False
    name = last_word(call.func)
    flagged = any(k.arg in ("inplace", "out") for k in call.keywords)
    return flagged or (name.endswith("_") and not name.startswith("_"))


def uses_gradient(sources: SourceTexts, frame: Frame | None) -> bool:
    """Whether the statement at this place reads some ``.grad``: an update written by hand."""
    found = _write_at(sources, frame)
    return found is not None and any(n.attr == "grad" for n in each(found[1], ast.Attribute))


def operands_named(sources: SourceTexts, frame: Frame | None, name: str) -> list[str]:
    """The spellings of a tensor in the expression at this place: paths that end as ``name`` does (``self.queue``)."""
    last = _last(name)
    if frame is None or not last:
        return []
    node: ast.AST | None = expression_at(sources, frame) or statement_at(sources, frame)
    found: dict[str, None] = {}
    todo = [node] if node is not None else []
    while todo:
        part = todo.pop(0)
        if isinstance(part, ast.Attribute | ast.Name | ast.Subscript) and is_read(part):
            spelled = ast.unparse(part)
            if _last(spelled) == last:
                found[spelled] = None
                continue
        todo += list(ast.iter_child_nodes(part))
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
    tests = list(each(scope, ast.If))
    found = [
        n
        for n in each(scope, ast.Assign, ast.AnnAssign, ast.For)
        if n.lineno < frame.line and any(is_name(t, name) for t in targets_of(n))
    ]
    for best in sorted(found, key=lambda n: n.lineno, reverse=True):
        sides = [(_side(t, best.lineno), _side(t, frame.line)) for t in tests if _side(t, best.lineno)]
        if any(here and made != here for made, here in sides):
            continue  # the other branch of one ``if``
        if any(made != here for made, here in sides):
            return None
        value = best.iter if isinstance(best, ast.For) else best.value
        return frame_of(sources, frame, value if value is not None else best)
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
    call = source.parents.get(node) if node is not None else None
    if isinstance(call, ast.Attribute):
        call = source.parents.get(call)
    if not isinstance(call, ast.Call) or not isinstance(source.parents.get(call), ast.Expr):
        return False
    name = last_word(call.func)
    receiver = is_method_call(call) and call.func.value is node
    filled = call.args[:1] == [node] and "init" in ast.unparse(call.func).split(".")[:-1]
    return is_in_place(name) and (receiver or filled)


# Other names of a tensor that is written in place: who reads one of them later sees what was written.


def read_by_another_name(sources: SourceTexts, frame: Frame | None, name: str) -> str:
    """The name that is the same tensor as ``name`` at this place (``h = x`` or ``res = h`` above) and is read behind it
    in the same function, or ``name`` itself where the result of the write goes by another one; empty where there is
    none. Statements are taken in the order of their lines."""
    scope = function_at(sources, frame)
    if frame is None or scope is None or not name.isidentifier():
        return ""
    others: dict[str, None] = {}
    for statement in sorted(statements(scope), key=lambda s: s.lineno):
        if statement.lineno >= frame.line:
            break
        if isinstance(statement, ast.AugAssign):
            continue  # in place, for a tensor
        for target in targets_of(statement):
            if is_name(target, name):
                others = {}
            elif isinstance(target, ast.Name):
                others.pop(target.id, None)
        for target, value in pairs(statement):
            if is_name(target, name) and isinstance(value, ast.Name):
                others[value.id] = None
            elif is_name(value, name) and isinstance(target, ast.Name):
                others[target.id] = None
    writing = [s for s in statements(scope) if isinstance(s, ast.Assign) and covers(s, frame.line)]
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
