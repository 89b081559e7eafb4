"""Run a forward hook before the forward instead of behind it: ``register_forward_pre_hook``.

The hook loses its third parameter, the output (or takes what comes as ``*args``), which it must not use, nor may it
return anything.

Args:
    places: every call that registers it, ``layer.register_forward_hook(hook)``.
    hook: anything in the function that is the hook (or in the ``__call__`` of its class).
"""

from __future__ import annotations

import ast

from graphdoc.fixes.fix_kind import Args, CannotFix, Sources, call, required, statement
from graphdoc.source.edits import drop_parameter, rename
from graphdoc.source.module import Function, Source
from graphdoc.source.places import Edit

KIND = "forward_pre_hook"

_RENAMED = {
    "register_forward_hook": "register_forward_pre_hook",
    "register_module_forward_hook": "register_module_forward_pre_hook",
}


def edit(sources: Sources, args: Args) -> list[Edit]:
    edits = [e for at in required(args, "places") for e in _renamed(*call(sources, at))]
    source, node = statement(sources, required(args, "hook"))
    function = node if isinstance(node, Function) else source.node_function(node)
    if function is None:
        raise CannotFix("the hook is no function of its own")
    return [*edits, *_without_output(source, function)]


def _renamed(source: Source, node: ast.Call) -> list[Edit]:
    old = node.func.attr if isinstance(node.func, ast.Attribute) else ""
    if old not in _RENAMED:
        raise CannotFix("the call registers no forward hook")
    if any(k.arg not in ("hook", "prepend") for k in node.keywords):
        raise CannotFix("the hook is registered in a way that a pre-hook does not have")
    return [rename(source, node.func, _RENAMED[old])]


def _without_output(source: Source, function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[Edit]:
    a = function.args
    given = [*a.posonlyargs, *a.args]
    method = isinstance(source.parents.get(function), ast.ClassDef) and not any(
        isinstance(d, ast.Name) and d.id == "staticmethod" for d in function.decorator_list
    )
    own = given[1:] if method else given
    rest = a.vararg.arg if a.vararg is not None and len(own) in (1, 2) else None
    if ((len(own) != 3 or a.vararg) and rest is None) or a.kwarg or a.kwonlyargs or a.defaults:
        raise CannotFix("the hook does not take exactly a module, its inputs and its output")
    output = rest or own[2].arg
    for node in ast.walk(function):
        if isinstance(node, ast.Name) and node.id == output:
            raise CannotFix(f"the hook uses {output}, which a pre-hook is not given")
        if isinstance(node, ast.Return) and node.value is not None:
            raise CannotFix("the hook returns something, which a pre-hook would put in the place of the inputs")
    return [] if rest else drop_parameter(source, function, given.index(own[2]))
