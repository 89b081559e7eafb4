"""Switch recording on or off: for statements, for a block that does so, for a function."""

from __future__ import annotations

import ast

from graphdoc.fixes.fix_kind import Args, CannotFix, Sources, both_at, kind, last_name, required, statement, statements
from graphdoc.source.edits import (
    decorate,
    delete,
    drop_arguments,
    drop_decorator,
    drop_item,
    instead,
    rename,
    unwrap,
    wrap,
    write,
    written,
)
from graphdoc.source.layout import is_compound
from graphdoc.source.module import Function, Source, given_to, has, is_within
from graphdoc.source.paths import is_constant, same
from graphdoc.source.places import Edit
from graphdoc.source.scopes import name_for

With = ast.With | ast.AsyncWith
Switch = ast.expr | ast.withitem
SWITCHES = ("no_grad", "inference_mode", "set_grad_enabled")


def switch_at(
    sources: Sources, at: object, name: str | None
) -> tuple[Source, Function | With, ast.expr | ast.withitem]:
    """The decorator or the item of a ``with`` at a place, or the innermost one of this name around it."""
    source, node, exact = both_at(sources, at)
    for above in (node, *source.node_ancestors(node)):
        if not isinstance(above, Function | With):
            continue
        found: list[Switch] = [*(above.decorator_list if isinstance(above, Function) else above.items)]
        exactly = [n for n in found if exact is not None and is_within(exact, _switch(n))]
        named = [n for n in found if last_name(_switch(n)) in ((name,) if name else SWITCHES)]
        if exactly or named:
            return source, above, (exactly or named)[0]
    raise CannotFix(f"no {name or 'grad mode'} stands around that place")


def _switch(node: Switch) -> ast.expr:
    return node.context_expr if isinstance(node, ast.withitem) else node


def renamed(source: Source, node: ast.expr, new: str) -> list[Edit]:
    """The edits that turn ``torch.inference_mode(...)`` into ``torch.<new>()``."""
    function = node.func if isinstance(node, ast.Call) else node
    if last_name(function) == new:
        raise CannotFix(f"it is {new} already")
    edits: list[Edit] = []
    if isinstance(node, ast.Call):
        if any(is_constant(g, False) for g in given_to(node)):
            raise CannotFix("the mode is switched off there")
        if new == "no_grad":
            edits += drop_arguments(source, node, lambda *_: True)
    if isinstance(function, ast.Attribute):
        return [rename(source, function, new), *edits]
    name = name_for(source, f"torch.{new}", node)
    return [write(source, function, name.text), *name.edits, *edits]


@kind("no_grad_block")
def no_grad_block(sources: Sources, args: Args) -> list[Edit]:
    """Run statements under ``with torch.no_grad():``.

    Args:
        place: the statement, or an expression in it.
        last: optional; the last statement of the range, in the same block.
    """
    source, chosen = statements(sources, args)
    return under_no_grad(source, chosen)


def under_no_grad(source: Source, chosen: list[ast.stmt]) -> list[Edit]:
    """The edits; refuses where the statements already run without gradients."""
    if any(_switches_to(a, "no_grad", "inference_mode") for a in (*source.node_ancestors(chosen[0]), *chosen)):
        raise CannotFix("the statements already run under no_grad")
    return _under(source, chosen, "no_grad")


def _under(source: Source, chosen: list[ast.stmt], mode: str) -> list[Edit]:
    name = name_for(source, f"torch.{mode}", chosen[0])
    return [*wrap(source, chosen, f"with {name.text}():"), *name.edits]


def _switches_to(node: ast.AST, *modes: str) -> bool:
    """Whether a block sets one of these grad modes."""
    return isinstance(node, ast.With) and any(last_name(i.context_expr) in modes for i in node.items)


@kind("no_grad_decorator", statement)
def no_grad_decorator(source: Source, node: ast.stmt, _: Args) -> list[Edit]:
    """Run a whole function without gradients: ``@torch.no_grad()`` directly above its ``def``."""
    function = node if isinstance(node, Function) else source.node_function(node)
    if function is None:
        raise CannotFix("no function stands around that place")
    if any("no_grad" in ast.unparse(d) for d in function.decorator_list):
        raise CannotFix(f"{function.name} already runs without gradients")
    if has(function, ast.Yield, ast.YieldFrom):
        raise CannotFix(f"{function.name} is a generator")
    name = name_for(source, "torch.no_grad", function)
    return [*decorate(source, function, f"{name.text}()"), *name.edits]


@kind("enable_grad_block", only_records=True)
def enable_grad_block(sources: Sources, args: Args) -> list[Edit]:
    """Record one statement where recording is switched off around it: ``with torch.enable_grad(): loss = closure()``.

    Args:
        place: the statement, or an expression in it.
        last: optional; the last statement of the range, in the same block.
    """
    source, chosen = statements(sources, args)
    if is_compound(chosen[0]):
        raise CannotFix("it is in the head of a block")
    if any(_switches_to(a, "enable_grad") for a in source.node_ancestors(chosen[0])):
        raise CannotFix("the statement runs under enable_grad already")
    return _under(source, chosen, "enable_grad")


@kind("under_no_grad_update")
def under_no_grad_update(sources: Sources, args: Args) -> list[Edit]:
    """A hand-written update of a parameter goes under no_grad: ``w -= lr * w.grad``, ``w = w - lr * w.grad``.

    The second form makes a new tensor, which is no parameter any more; under no_grad it becomes the first.

    Args:
        place: the update, or an expression in it.
        last: optional; the last of several updates in one block.
    """
    source, node = statement(sources, required(args, "place"))
    edits = no_grad_block(sources, args)
    value = node.value if isinstance(node, ast.Assign) and len(node.targets) == 1 else None
    if isinstance(node, ast.Assign) and isinstance(value, ast.BinOp) and same(value.left, node.targets[0]):
        template = ast.unparse(ast.AugAssign(ast.Name("{target}"), value.op, ast.Name("{value}")))
        edits += instead(source, node, [written(source, template, target=node.targets[0], value=value.right)])
    return edits


@kind("remove_switch")
def remove_switch(sources: Sources, args: Args) -> list[Edit]:
    """Remove whatever switches recording off, or another such mode on, at a place.

    A decorator line goes, a ``with`` block is dissolved (of several items only the one goes),
    ``torch.set_grad_enabled(False)`` as a statement is removed.

    Args:
        place: the decorator, the expression of the ``with``, the call of ``set_grad_enabled``, or anything in the
            function or the block.
        name: the last name of what goes (``no_grad``), where ``place`` is not the thing itself.
    """
    source, node = statement(sources, required(args, "place"))
    if isinstance(node, ast.Expr) and last_name(node.value) in (*SWITCHES, "_set_grad_enabled"):
        return delete(source, node)
    source, owner, switch = switch_at(sources, args["place"], args.get("name"))
    if isinstance(owner, Function):
        assert isinstance(switch, ast.expr)
        return drop_decorator(source, owner, switch)
    if len(owner.items) == 1:
        return unwrap(source, owner)
    assert isinstance(switch, ast.withitem)
    if switch.optional_vars is not None:
        raise CannotFix("the block uses what the item gives it")
    return drop_item(source, owner, switch)


@kind("swap_switch")
def swap_switch(sources: Sources, args: Args) -> list[Edit]:
    """Put another grad mode on a block or a function: ``with torch.inference_mode():`` → ``with torch.no_grad():``.

    Args:
        place: the expression of the ``with`` statement, the decorator, or anything in the block or the function.
        old: the last name of what is there, ``inference_mode`` by default.
        new: its replacement in ``torch``, ``no_grad`` by default.
    """
    source, _, switch = switch_at(sources, required(args, "place"), args.get("old", "inference_mode"))
    return renamed(source, _switch(switch), str(args.get("new", "no_grad")))
