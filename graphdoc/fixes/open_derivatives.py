"""Derivatives that are yet to be written: the function that has none gets one, with a place for each gradient."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

from graphdoc.fixes.fix_kind import Args, CannotFix, Sources, kind, required, statement
from graphdoc.source.edits import below, insert_after, written
from graphdoc.source.module import Source, each
from graphdoc.source.paths import last_word
from graphdoc.source.places import Below, Edit


@kind("write_backward")
def write_backward(sources: Sources, args: Args) -> list[Edit]:
    """Give a custom Function without a ``backward`` one: ``return GRADIENT_OF_X, None`` below what forward has saved.

    Args:
        place: its ``forward``.
        gradients: the source of the gradient of each input.
        outputs: the names of the gradients that it is given, one for each output.
    """
    source, forward = statement(sources, required(args, "place"))
    around = source.parents.get(forward)
    if not isinstance(forward, ast.FunctionDef) or not isinstance(around, ast.ClassDef):
        raise CannotFix("no forward of a class stands there")
    saving = next((m for m in around.body if isinstance(m, ast.FunctionDef) and m.name == "setup_context"), forward)
    context = saving.args.args[0].arg if saving.args.args else "ctx"
    calls = (n for n in each(saving, ast.Call) if last_word(n.func) == "save_for_backward")
    saved = [n for n in calls if n.args and not n.keywords]
    names = [ast.unparse(a) for a in saved[0].args] if len(saved) == 1 else []
    unpacked = _unpacked(names, f"{context}.saved_tensors") if all(n.isidentifier() for n in names) else []
    return insert_after(
        source, around.body[-1], ["", _function(source, "backward", context, args, unpacked, "@staticmethod\n")]
    )


@kind("register_derivative")
def register_derivative(sources: Sources, args: Args) -> list[Edit]:
    """Register a derivative for a custom operator: ``smooth.register_autograd(smooth_backward, setup_context=…)``.

    Args:
        place: the function that is the operator.
        tensors: the names of its inputs that are single tensors, which are saved.
        gradients: the source of the gradient of each input.
        outputs: the names of the gradients that it is given, one for each output.
    """
    source, operator = statement(sources, required(args, "place"))
    found = source.node_block(operator)
    if not isinstance(operator, ast.FunctionDef) or found is None or isinstance(source.parents[operator], ast.ClassDef):
        raise CannotFix("no function of a module stands there")
    name = operator.name
    setup, backward = f"{name}_setup", f"{name}_backward"
    if re.search(rf"\b({setup}|{backward})\b", source.text):
        raise CannotFix(f"`{setup}` or `{backward}` means something else there")
    inputs, tensors = [a.arg for a in operator.args.args], [str(t) for t in required(args, "tensors")]
    kept = [f"ctx.save_for_backward({', '.join(tensors)})"] if tensors else []
    numbers = [n for n, value in zip(inputs, args["gradients"], strict=True) if value == "None" and n not in tensors]
    keeps = [*_unpacked(inputs, "inputs"), *kept, *(f"ctx.{n} = {n}" for n in numbers)]
    last: ast.stmt = operator
    for following in found[0][found[1] + 1 :]:  # what else is registered for it stands directly below
        decorators = following.decorator_list if isinstance(following, ast.FunctionDef) else []
        if not any(ast.unparse(d).startswith(f"{name}.") for d in decorators):
            break
        last = following
    return insert_after(
        source,
        last,
        [
            "",
            "",
            below(written(source, f"def {setup}(ctx, inputs, output):"), keeps),
            "",
            "",
            _function(source, backward, "ctx", args, _unpacked(tensors, "ctx.saved_tensors")),
            "",
            "",
            f"{name}.register_autograd({backward}, setup_context={setup})",
        ],
    )


def _function(source: Source, name: str, context: str, args: Args, first: Sequence[str], decorators: str = "") -> Below:
    """The function that returns the gradients, below what it needs for them."""
    outputs = ", ".join(required(args, "outputs"))
    header = written(source, f"{decorators}def {name}({context}, {outputs}):")
    return below(header, [*first, f"return {', '.join(required(args, 'gradients'))}"])


def _unpacked(names: Sequence[str], value: str) -> list[str]:
    """The statement that gives each of several values its name."""
    told = f"({names[0]},)" if len(names) == 1 else ", ".join(names)
    return [f"{told} = {value}"] if names else []
