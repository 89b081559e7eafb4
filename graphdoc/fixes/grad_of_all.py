"""Ask for the gradients of all inputs in one ``torch.autograd.grad`` call instead of one call for each.

``grads = []`` … ``for x in xs: grads.append(torch.autograd.grad(y, x)[0])`` becomes
``grads.extend(torch.autograd.grad(y, list(xs)))``; a comprehension becomes ``list(torch.autograd.grad(y, xs))``.

Args:
    place: the call of ``torch.autograd.grad`` in the loop or comprehension.
"""

from __future__ import annotations

import ast

from graphdoc.fixes.contexts import last_name
from graphdoc.fixes.fix_kind import Args, CannotFix, Sources, call, required
from graphdoc.source.edits import copied, instead, rename, without_flag, write
from graphdoc.source.module import Source
from graphdoc.source.places import Edit

KIND = "grad_of_all"
ONLY_RECORDS = True


def edit(sources: Sources, args: Args) -> list[Edit]:
    source, node = call(sources, required(args, "place"))
    if last_name(node) != "grad" or len(node.args) < 2:
        raise CannotFix("no torch.autograd.grad with its inputs stands there")
    element = _first_of(source, node)
    above = source.parents.get(element)
    if isinstance(above, ast.ListComp) and above.elt is element and len(above.generators) == 1:
        generator = above.generators[0]
        if generator.ifs or not _is(node.args[1], generator.target):
            raise CannotFix("the inputs are not simply those that are gone through")
        _check_output(node, generator.target)
        return [write(source, above, "list({call})", call=node), *_asked(source, node, generator.iter)]
    loop, appending, append = _appending_loop(source, element, node)
    _check_output(node, loop.target)
    asked = [write(source, element, "{call}", call=node), *_asked(source, node, loop.iter)]
    return instead(source, loop, [copied(source, appending, [rename(source, append.func, "extend"), *asked])])


def _check_output(node: ast.Call, target: ast.expr) -> None:
    """What is differentiated has to be the same for every input."""
    if any(_is(n, target) for n in ast.walk(node.args[0]) if isinstance(n, ast.expr)):
        raise CannotFix("another result is differentiated for each input")


def _first_of(source: Source, node: ast.Call) -> ast.expr:
    """The ``[0]`` around the call: the gradient itself rather than the tuple of one."""
    above = source.parents.get(node)
    if isinstance(above, ast.Subscript) and isinstance(above.slice, ast.Constant) and above.slice.value == 0:
        return above
    raise CannotFix("the result is not taken as a single gradient")


def _appending_loop(source: Source, element: ast.expr, node: ast.Call) -> tuple[ast.For, ast.Expr, ast.Call]:
    append = source.parents.get(element)
    statement = source.parents.get(append) if append is not None else None
    loop = source.parents.get(statement) if statement is not None else None
    if (
        isinstance(append, ast.Call)
        and isinstance(append.func, ast.Attribute)
        and append.func.attr == "append"
        and isinstance(statement, ast.Expr)
        and isinstance(loop, ast.For)
        and len(loop.body) == 1
        and not loop.orelse
        and _is(node.args[1], loop.target)
    ):
        return loop, statement, append
    raise CannotFix("the gradients are not collected in a plain loop")


def _is(argument: ast.expr, target: ast.expr) -> bool:
    return isinstance(argument, ast.Name) and isinstance(target, ast.Name) and argument.id == target.id


def _asked(source: Source, node: ast.Call, inputs: ast.expr) -> list[Edit]:
    """The call with all inputs in the place of one."""
    return [write(source, node.args[1], "{inputs}", inputs=inputs), *without_flag(source, node)]
