"""Hand a function what it changes: under a torch.func transform it may change its arguments, and nothing else."""

from __future__ import annotations

import ast

from graphdoc.fixes.fix_kind import Args, CannotFix, Sources, call, kind, required, statement
from graphdoc.source.edits import add_argument, add_members, write
from graphdoc.source.module import Source, each, is_within
from graphdoc.source.paths import is_read
from graphdoc.source.places import Edit
from graphdoc.source.scopes import bound_names, fresh_name, is_readable


@kind("pass_captured", keeps_numbers=True)
def pass_captured(sources: Sources, args: Args) -> list[Edit]:
    """Make what a transformed function changes one of its arguments: ``grad(f)(x)`` → ``grad(f)(x, total=total)``.

    The transform wraps an argument, and a write into it reaches the tensor itself.

    Args:
        place: the write into a name from outside, or a call of ``functional_call``, whose module's buffers are changed.
        calling: the call of what the transform has given.
        name: the name from outside; of ``functional_call`` none is given.
    """
    source, node = statement(sources, required(args, "place"))
    other, calling = call(sources, required(args, "calling"))
    function = source.node_function(node)
    if other is not source or not isinstance(function, ast.FunctionDef):
        raise CannotFix("the transformed function is no `def` of the same file")
    given = function.args
    if given.vararg or given.kwarg or given.kwonlyargs or given.defaults:
        raise CannotFix("not every argument of the transformed function is required")
    loads = [n for n in each(source.tree, ast.Name) if n.id == function.name and is_read(n)]
    if len(loads) != 1 or not is_within(loads[0], calling.func):
        raise CannotFix(f"`{function.name}` is used in other places too")
    name = str(args.get("name") or "")
    if name:
        seen, value, edits = name, name, list[Edit]()
    else:
        _, running = call(sources, required(args, "place"))
        if len(running.args) < 2 or not isinstance(running.args[0], ast.Name):
            raise CannotFix("the module and its parameters are not written out")
        seen = running.args[0].id
        name, value = fresh_name(source, "buffers"), f"dict({seen}.named_buffers())"
        edits = [_with_buffers(source, running.args[1], name)]
    if seen in bound_names(function) or not is_readable(source, seen, calling):
        raise CannotFix(f"`{seen}` is not known where the transformed function is called")
    return [*edits, *add_members(source, function, [name]), *add_argument(source, calling, f"{name}={value}")]


def _with_buffers(source: Source, given: ast.expr, name: str) -> Edit:
    """``functional_call`` takes several dicts in a tuple."""
    if isinstance(given, ast.Tuple | ast.List):
        raise CannotFix("several dicts are given already")
    return write(source, given, f"({{given}}, {name})", given=given)
