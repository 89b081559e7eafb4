"""Which gradients there are: what requires or keeps one, what one is asked for, what is done where there is none."""

from __future__ import annotations

import ast

from graphdoc.fixes.fix_kind import (
    Args,
    CannotFix,
    Sources,
    both_at,
    call,
    expression,
    kind,
    last_name,
    path_in,
    required,
    statement,
)
from graphdoc.fixes.structures import convert_expression
from graphdoc.source.edits import (
    copied,
    drop_arguments,
    insert_after,
    insert_before,
    instead,
    rename,
    where_bound,
    without_flag,
    wrap,
    write,
    written,
)
from graphdoc.source.expressions import Use, use_of
from graphdoc.source.layout import first_statement
from graphdoc.source.module import Function, Source, each, is_method_call, keyword
from graphdoc.source.paths import is_constant, is_path, same, targets_of
from graphdoc.source.places import Edit
from graphdoc.source.scopes import fresh_name, name_for, parameters


@kind("make_leaf", expression)
def make_leaf(source: Source, whole: ast.expr, _: Args) -> list[Edit]:
    """The tensor that is trained becomes a leaf: it requires gradients after the operation, not before it.

    ``torch.randn(3, requires_grad=True) * 0.1`` → ``(torch.randn(3) * 0.1).requires_grad_(True)``;
    ``nn.Parameter(x).to(device)`` → ``nn.Parameter(x.to(device))``.
    """
    inner = [n for n in each(whole, ast.Call) if n is not whole and _requires(n)]
    if len(inner) != 1:
        raise CannotFix("no single tensor inside the expression is made with requires_grad")
    made = inner[0]
    if last_name(made) in ("Parameter", "Buffer"):
        if len(made.args) != 1 or made.keywords:
            raise CannotFix("the parameter is made with further arguments")
        around = write(source, whole, "{parameter}({whole})", parameter=copied(source, made.func), whole=whole)
        return [write(source, made, "{value}", value=made.args[0]), around]
    edits = drop_arguments(source, made, lambda _, k: k == "requires_grad")
    if is_method_call(made, "requires_grad_"):
        edits = [write(source, made, "{tensor}", tensor=made.func.value)]
    return [*edits, write(source, whole, "{whole}.requires_grad_(True)", whole=whole)]


def _requires(node: ast.Call) -> bool:
    if last_name(node) in ("Parameter", "requires_grad_"):
        return True
    return is_constant(keyword(node, "requires_grad"), True)


@kind("require_input_grad", only_records=True)
def require_input_grad(sources: Sources, args: Args) -> list[Edit]:
    """Let an input require gradients: ``x.requires_grad_()``.

    Args:
        place: the statement that binds the name (it comes behind), a function with that parameter (it comes first in
            the body), any other statement (it comes before), or, without ``name``, the expression that makes the
            tensor.
        name: the tensor's name or path.
    """
    name = args.get("name")
    if not name:
        source, node = expression(sources, required(args, "place"))
        return convert_expression(source, node, "tensor", "requires_grad_")
    source, owner = statement(sources, required(args, "place"))
    wanted = path_in(name)
    text = f"{name}.requires_grad_()"
    if any(text in ast.unparse(s) for s in source.node_block(owner)[0] if not hasattr(s, "body")):
        raise CannotFix(f"{name} already requires gradients there")
    if isinstance(owner, Function) and str(name) in parameters(owner):
        return insert_before(source, first_statement(owner), [text])
    if any(same(t, wanted) for t in targets_of(owner)):
        return where_bound(source, owner, [text])
    return insert_before(source, owner, [text])


@kind("grad_if_any", only_records=True)
def grad_if_any(sources: Sources, args: Args) -> list[Edit]:
    """Use a gradient only where there is one.

    ``total += p.grad.norm()`` becomes ``total += (torch.zeros_like(p) if p.grad is None else p.grad).norm()``;
    ``p.grad.clamp_(-1, 1)`` is put under ``if p.grad is not None:``; in front of ``p.grad.data = g`` and ``p.grad +=
    g`` zeros are set where there is none.

    Args:
        place: the expression ``p.grad``.
    """
    source, owner, node = both_at(sources, required(args, "place"))
    use = use_of(source, node) if node is not None else None
    if use is None or not isinstance(node, ast.Attribute):
        raise CannotFix("what is done there with the gradient cannot be done to some of them only")
    if use is Use.SCALED:
        return wrap(source, [owner], f"if {source.segment(node)} is not None:")
    zeros = name_for(source, "torch.zeros_like", node)
    if use is Use.GIVEN:
        lines = f"if {{grad}} is None:\n    {{grad}} = {zeros.text}({{tensor}})"
        return [*insert_before(source, owner, [written(source, lines, grad=node, tensor=node.value)]), *zeros.edits]
    either = f"{zeros.text}({{tensor}}) if {{grad}} is None else {{grad}}"
    return [write(source, node, either, grad=node, tensor=node.value), *zeros.edits]


@kind("grad_of_all", call, only_records=True)
def grad_of_all(source: Source, node: ast.Call, _: Args) -> list[Edit]:
    """Ask for the gradients of all inputs in one ``torch.autograd.grad`` call instead of one call for each.

    ``grads = []`` … ``for x in xs: grads.append(torch.autograd.grad(y, x)[0])`` becomes
    ``grads.extend(torch.autograd.grad(y, list(xs)))``; a comprehension becomes ``list(torch.autograd.grad(y, xs))``.
    """
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
    if any(_is(n, target) for n in each(node.args[0], ast.expr)):
        raise CannotFix("another result is differentiated for each input")


def _first_of(source: Source, node: ast.Call) -> ast.expr:
    """The ``[0]`` around the call: the gradient itself rather than the tuple of one."""
    above = source.parents.get(node)
    if isinstance(above, ast.Subscript) and is_constant(above.slice, 0):
        return above
    raise CannotFix("the result is not taken as a single gradient")


def _appending_loop(source: Source, element: ast.expr, node: ast.Call) -> tuple[ast.For, ast.Expr, ast.Call]:
    append = source.parents.get(element)
    statement = source.parents.get(append) if append is not None else None
    match source.parents.get(statement) if statement is not None else None:
        case ast.For(body=[ast.Expr() as only], orelse=[]) as loop if is_method_call(append, "append"):
            if _is(node.args[1], loop.target):
                return loop, only, append
    raise CannotFix("the gradients are not collected in a plain loop")


def _is(argument: ast.expr, target: ast.expr) -> bool:
    return isinstance(argument, ast.Name) and isinstance(target, ast.Name) and argument.id == target.id


def _asked(source: Source, node: ast.Call, inputs: ast.expr) -> list[Edit]:
    """The call with all inputs in the place of one."""
    return [write(source, node.args[1], "{inputs}", inputs=inputs), *without_flag(source, node)]


@kind("grad_of_flagged", call, only_records=True)
def grad_of_flagged(source: Source, node: ast.Call, _: Args) -> list[Edit]:
    """Ask only for the gradients of those inputs that require them; the others keep their place in the result, as None.

    ``grads = torch.autograd.grad(y, xs)`` becomes ``asked = list(xs)``, ``grads = torch.autograd.grad(y, [x for x in
    asked if x.requires_grad])``, and behind it each gradient is put back where its input stands.
    """
    given = node.args[1] if len(node.args) > 1 else keyword(node, "inputs")
    if last_name(node) != "grad" or given is None:
        raise CannotFix("no torch.autograd.grad with its inputs stands there")
    owner = source.parents.get(node)
    if not isinstance(owner, ast.Assign) or len(owner.targets) != 1 or not is_path(owner.targets[0]):
        raise CannotFix("its result is not simply assigned to one name")
    if isinstance(given, ast.ListComp | ast.GeneratorExp) and any(g.ifs for g in given.generators):
        raise CannotFix("the inputs are chosen already")
    asked, each = fresh_name(source, "asked", "asked_for"), fresh_name(source, "each", "one_asked")
    found, grads = fresh_name(source, "found", "found_grads"), owner.targets[0]
    back = f"{{grads}} = tuple(next({found}) if {each}.requires_grad else None for {each} in {asked})"
    taken = [written(source, f"{found} = iter({{grads}})", grads=grads), written(source, back, grads=grads)]
    return [
        *insert_before(source, owner, [written(source, f"{asked} = list({{given}})", given=copied(source, given))]),
        write(source, given, f"[{each} for {each} in {asked} if {each}.requires_grad]"),
        *insert_after(source, owner, taken),
    ]


_COPIES = ("clone", "contiguous")
"""Methods whose result has the elements of their tensor, each in its place."""


@kind("grad_of_whole", call, only_records=True)
def grad_of_whole(source: Source, node: ast.Call, _: Args) -> list[Edit]:
    """Ask for the gradient of the whole tensor and take the part of it that is wanted.

    ``torch.autograd.grad(u, x[:, 0:1])[0]`` becomes ``torch.autograd.grad(u, x)[0][:, 0:1]``: the part is a new tensor,
    of which nothing was computed. So is a copy: ``x.clone()`` becomes ``x``.
    """
    given = node.args[1] if len(node.args) > 1 else keyword(node, "inputs")
    tensor = given.value if isinstance(given, ast.Subscript) else given
    while is_method_call(tensor) and tensor.func.attr in _COPIES:
        tensor = tensor.func.value
    if last_name(node) != "grad" or given is None or tensor is None or tensor is given or not is_path(tensor):
        raise CannotFix("no torch.autograd.grad by a part or a copy of a tensor stands there")
    if not isinstance(given, ast.Subscript):
        return [write(source, given, "{tensor}", tensor=tensor)]
    above = source.parents.get(node)
    first = above.slice if isinstance(above, ast.Subscript) and above.value is node else None
    if not isinstance(above, ast.Subscript) or not isinstance(first, ast.Constant) or first.value != 0:
        raise CannotFix("the gradient is not taken out of the result where it is asked for")
    whole = copied(source, above, [write(source, given, "{tensor}", tensor=tensor)])
    part = copied(source, given, [write(source, given.value, "{whole}", whole=whole)])
    return [write(source, above, "{part}", part=part)]
