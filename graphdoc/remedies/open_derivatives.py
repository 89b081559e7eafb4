"""Derivatives that only their author knows: where each gradient is to be written, and of what."""

from __future__ import annotations

import ast
from collections.abc import Collection, Sequence

from graphdoc.evidence import Frame, Node, SourceTexts
from graphdoc.finding import Remedy
from graphdoc.program import bindings
from graphdoc.program.custom_functions import forwards_without_backward, inputs_of, takes_ctx
from graphdoc.program.observed import Program
from graphdoc.remedies.fix_places import applies, to_finish
from graphdoc.source.module import each
from graphdoc.source.paths import last_word

_NOTE = "`torch.autograd.gradcheck()` in double precision tells whether what you write is the derivative."
_OPERATORS = ("custom_op", "triton_op")
_NUMBERS = ("int", "float", "bool", "str", "Number", "dtype", "device", "Device", "SymInt")
"""Annotations of arguments that have no gradient (torch.library.infer_schema has them all)."""


def open_gradients(
    names: Sequence[str], without: Collection[int], tensors: Collection[int]
) -> tuple[list[str], dict[str, str]]:
    """A value for each input, ``None`` for those ``without`` a gradient; and what each name is to be replaced by. Of
    those that are not known to be ``tensors`` some may have no gradient."""
    values, left = [], {}
    for i, name in enumerate(names):
        if i in without:
            values.append("None")
            continue
        own = f"GRADIENT_OF_{name.upper()}" if name.isascii() else f"GRADIENT_{i + 1}"
        own = f"{own}_{i + 1}" if own in left else own
        values.append(own)
        maybe = "" if i in tensors else ", or None"
        left[own] = f"the gradient with respect to `{name}`, of its shape{maybe}"
    return values, left


def registered(program: Program, op: str) -> tuple[Remedy, ...]:
    """The derivative of a custom operator by the name that a message has, ``space.name.default``; none where its
    function is not in sight, or writes into what it is given."""
    for file, node in bindings.everywhere(program.sources, ast.FunctionDef):
        if any(_makes(d, op) for d in node.decorator_list):
            return tuple(r for r in _registered(program.sources, file, node) if applies(program.sources, r))
    return ()


def _makes(decorator: ast.expr, op: str) -> bool:
    """Whether this decorator makes the operator of that name, and one that only returns new tensors: for any other,
    torch refuses a derivative (torch/_library/custom_ops.py)."""
    if not isinstance(decorator, ast.Call) or last_word(decorator.func) not in _OPERATORS or not decorator.args:
        return False
    name = decorator.args[0]
    changed = next((k.value for k in decorator.keywords if k.arg == "mutates_args"), None)
    pure = isinstance(changed, ast.Tuple | ast.List) and not changed.elts
    return pure and isinstance(name, ast.Constant) and str(name.value).replace("::", ".") == op.removesuffix(".default")


def _registered(sources: SourceTexts, file: str, operator: ast.FunctionDef) -> tuple[Remedy, ...]:
    names = inputs_of(operator, False)
    if not names or operator.args.posonlyargs:
        return ()
    kinds = [bindings.text_of(a.annotation) for a in operator.args.args]  # torch wants one for each
    plain = [i for i, k in enumerate(kinds) if "Tensor" not in k]
    single = [i for i, k in enumerate(kinds) if k.strip("'\"").rpartition(".")[2] == "Tensor"]
    values, left = open_gradients(names, plain, single)
    if not left:
        return ()  # its schema is given in other words
    title = f"register a derivative for `{operator.name}`, with the gradients that you write"
    at = bindings.frame_of(sources, file, operator, operator.name)
    args = {"gradients": values, "tensors": [names[i] for i in single], "outputs": _outputs(operator.returns)}
    return to_finish(at, "register_derivative", title, _NOTE, left, **args)


def _outputs(returns: ast.expr | None) -> list[str]:
    """The names of the gradients that arrive: one for each output."""
    several = isinstance(returns, ast.Subscript) and last_word(returns.value) in ("tuple", "Tuple")
    told = returns.slice if several and isinstance(returns, ast.Subscript) else None
    count = len(told.elts) if isinstance(told, ast.Tuple) else 1
    return _numbered(count)


def _numbered(count: int) -> list[str]:
    return ["grad"] if count == 1 else [f"grad_{i + 1}" for i in range(count)]


def without_backward(program: Program) -> tuple[str, ast.FunctionDef, Node] | None:
    """The forward, with its file, of the Function at whose node the engine has stopped for want of a backward."""
    node = program.evidence.failing_node
    found = forwards_without_backward(program.sources, node.op.removesuffix("Backward")) if node is not None else []
    return (*found[0], node) if node is not None and len(found) == 1 else None


def written_backward(
    program: Program, file: str, forward: ast.FunctionDef, applied: Frame | None
) -> tuple[Remedy, ...]:
    """A ``backward`` beside a forward that has none; ``applied`` is where it was called."""
    names = inputs_of(forward, takes_ctx(program.sources, file, forward))
    if not names:
        return ()
    kinds = [last_word(a.annotation) if a.annotation is not None else "" for a in forward.args.args][-len(names) :]
    given = _given(program.sources, applied)
    fixed = {i for i, value in enumerate(given) if isinstance(value, ast.Constant)}
    plain = [i for i, k in enumerate(kinds) if k in _NUMBERS or i in fixed]
    values, left = open_gradients(names, plain, [i for i, k in enumerate(kinds) if k == "Tensor"])
    if not left:
        return ()
    returned = [n.value for n in each(forward, ast.Return)]
    counts = {len(v.elts) if isinstance(v, ast.Tuple) else 1 for v in returned}
    title = "write its `backward`, with the gradients that only you know"
    at, outputs = bindings.frame_of(program.sources, file, forward, "forward"), counts.pop() if len(counts) == 1 else 1
    return to_finish(at, "write_backward", title, _NOTE, left, gradients=values, outputs=_numbered(outputs))


def _given(sources: SourceTexts, frame: Frame | None) -> list[ast.expr]:
    """What ``apply`` is given where it was called."""
    call = bindings.call_at(sources, frame)
    inner = [n for n in each(call, ast.Call) if last_word(n.func) == "apply"]
    return inner[0].args if len(inner) == 1 else []
