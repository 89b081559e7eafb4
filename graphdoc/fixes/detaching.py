"""Cut a graph: at a use, behind or at an assignment, in what is kept; or keep a copy in its place."""

from __future__ import annotations

import ast
from typing import Any

from graphdoc.fixes.aliases import refuse_lost, view_binding
from graphdoc.fixes.fix_kind import (
    Args,
    CannotFix,
    Sources,
    anchored,
    call,
    expression,
    kind,
    path_in,
    required,
    statement,
)
from graphdoc.fixes.statements import named
from graphdoc.fixes.structures import convert_expression, rebinding
from graphdoc.source import scopes
from graphdoc.source.edits import copied, delete, insert_after, insert_before, instead, where_bound, write, written
from graphdoc.source.effects import method_of
from graphdoc.source.module import Source, each, is_method_call, walked
from graphdoc.source.paths import (
    is_attribute,
    is_path,
    is_read,
    is_set,
    key,
    parse_expression,
    plain_names,
    same,
    targets_of,
    value_given,
    words,
)
from graphdoc.source.places import Edit

# Reading these takes no gradient along.
_METADATA = words("shape dtype device ndim size dim numel layout is_cuda requires_grad grad data detach")


@kind("detach_expression")
def detach_expression(sources: Sources, args: Args) -> list[Edit]:
    """Detach at the use: ``.detach()`` on an expression, or on operands inside it.

    Args:
        place: the expression.
        operands: optional; texts of the operands inside it that are detached instead, each a string such as
            ``"self.hidden"`` or a pair ``[text, structure]``.
        structure: of the expression or of the operands given as strings; ``"tensor"`` by default
            (``fixes.structures``).
    """
    return convert(sources, args, "detach")


def convert(sources: Sources, args: Args, method: str) -> list[Edit]:
    """The same edit with any method that takes no argument (``detach``, ``clone``)."""
    source, node = expression(sources, required(args, "place"))
    structure = args.get("structure") or "tensor"
    operands = args.get("operands")
    if not operands:
        if not args.get("structure") and _taken_apart(source, node):
            raise CannotFix("its value is taken apart there, and may be no tensor")
        return convert_expression(source, node, structure, method)
    edits: list[Edit] = []
    for operand in operands:
        text, own = (operand, structure) if isinstance(operand, str) else (operand[0], operand[1])
        edits += _operand(source, node, text, own, method)
    return edits


def _taken_apart(source: Source, node: ast.expr) -> bool:
    """Whether the statement gives each part of the value a name of its own."""
    above = source.parents.get(node)
    if not isinstance(above, ast.Assign) or above.value is not node:
        return False
    return any(isinstance(t, ast.Tuple | ast.List) for t in above.targets)


def _operand(source: Source, node: ast.expr, text: str, structure: Any, method: str) -> list[Edit]:
    wanted = parse_expression(text)
    if wanted is None:
        raise CannotFix(f"{text} is not an expression")
    there = [n for n in each(node, type(wanted)) if key(n) == key(wanted) and not is_set(n)]
    found = [n for n in there if not is_attribute(source.parents.get(n), *_METADATA)]
    if not found:
        raise CannotFix(f"{text} is already detached there" if there else f"{text} does not occur in the expression")
    return [e for n in found for e in convert_expression(source, n, structure, method)]


@kind("clone_expression", keeps_numbers=True, only_records=True)
def clone_expression(sources: Sources, args: Args) -> list[Edit]:
    """Clone at the use: ``.clone()`` on an expression, or on operands inside it.

    Args:
        place: the expression.
        operands: optional; texts of the operands inside it that are cloned instead, as for ``detach_expression``.
        structure: of the expression or of the operands given as strings, as for ``detach_expression``.
    """
    return convert(sources, args, "clone")


@kind("detach_after")
def detach_after(sources: Sources, args: Args) -> list[Edit]:
    """Detach where state is carried: behind a statement, or in front of one, give each carried path its detached value.

    Args:
        after: the place of the statement (``loss.backward()``, ``optimizer.step()``).
        before: in place of it, the statement in front of which it is done (the forward that takes the value up).
        paths: list of ``[path, structure]`` (or of paths alone, for tensors), such as ``["self.state", {"tuple":
            ["tensor", "tensor"]}]``. The statements come in this order, in the block of the statement. A third element
            that is true keeps the list or dictionary: others hold the same one.
    """
    source, anchor, behind = anchored(sources, args)
    texts: list[str] = []
    edits: list[Edit] = []
    for entry in required(args, "paths"):
        path, structure, *kept = (entry, "tensor") if isinstance(entry, str) else entry
        more, needed = rebinding(source, anchor, path, structure, same=bool(kept and kept[0]))
        texts += [t for t in more if t not in texts]
        edits += needed
    if not texts:
        raise CannotFix("no carried value was named")
    block, at = source.node_block(anchor)
    near = block[at + 1 : at + 1 + len(texts)] if behind else block[max(at - len(texts), 0) : at]
    following = {key(s) for s in near}
    texts = [t for t in texts if t not in following]
    if not texts:
        raise CannotFix("the values are already detached there")
    return [*(insert_after if behind else insert_before)(source, anchor, texts), *edits]


@kind("detach_assigned", statement)
def detach_assigned(source: Source, anchor: ast.stmt, args: Args) -> list[Edit]:
    """Detach where state is assigned: in the assignment itself, or in a statement behind it.

    Args:
        place: an expression inside the assignment, or the assignment.
        targets: list of ``[path, structure]`` (or paths alone, for tensors) of the assigned values to detach.
    """
    edits: list[Edit] = []
    behind: list[str] = []
    for entry in required(args, "targets"):
        path, structure = (entry, "tensor") if isinstance(entry, str) else (entry[0], entry[1])
        wanted = parse_expression(path)
        if wanted is None or not any(same(t, wanted) for t in targets_of(anchor)):
            raise CannotFix(f"{path} is not assigned at {source.file}:{anchor.lineno}")
        value = value_given(anchor, wanted)
        if value is not None:
            edits += convert_expression(source, value, structure)
        else:
            texts, needed = rebinding(source, anchor, path, structure)
            behind += texts
            edits += needed
    return [*edits, *where_bound(source, anchor, behind)]


@kind("detach_stored", statement)
def detach_stored(source: Source, anchor: ast.stmt, _: Args) -> list[Edit]:
    """Keep only a detached copy of a result in an attribute; the function itself goes on with the live one.

    ``self.map = f(x)`` … ``return x * self.map`` becomes ``map_ = f(x)``, ``self.map = map_.detach()`` … ``return x *
    map_``. What has a name already (``self.map = h``) keeps it: ``self.map = h.detach()`` … ``return x * h``.
    """
    if not isinstance(anchor, ast.Assign) or len(anchor.targets) != 1:
        raise CannotFix("the result is not stored by a plain assignment")
    target = anchor.targets[0]
    if not isinstance(target, ast.Attribute):
        raise CannotFix("the result is not stored in an attribute")
    function = source.node_function(anchor)
    if function is None:
        raise CannotFix("the result is stored outside of a function")
    if ".detach()" in source.segment(anchor.value):
        raise CannotFix("what is stored is detached already")
    end = source.span(anchor)[1]
    later = (n for n in each(function, ast.Attribute) if source.span(n)[0] > end)
    reads = [n for n in later if is_read(n) and same(n, target)]
    block, index = source.node_block(anchor)
    behind = {n for s in block[index:] for n in walked(s)}
    if not behind.issuperset(reads):
        raise CannotFix("the function reads the attribute where another branch may have set it")
    if isinstance(anchor.value, ast.Name) and not _bound_again(function, anchor.value.id, anchor.lineno):
        name = anchor.value.id
        return [write(source, anchor.value, f"{name}.detach()"), *(write(source, read, name) for read in reads)]
    name = scopes.fresh_name(source, target.attr, f"{target.attr}_")
    kept = written(source, f"{{stored}} = {name}.detach()", stored=copied(source, target))
    renamed = [write(source, node, name) for node in (target, *reads)]
    return [*renamed, *insert_after(source, anchor, [kept])]


def _bound_again(function: ast.AST, name: str, line: int) -> bool:
    """Whether the name may stand for something else behind this line."""
    stores = [n for n in each(function, ast.Name) if n.id == name and not isinstance(n.ctx, ast.Load)]
    loops = [n for n in each(function, ast.For, ast.While) if n.lineno < line <= (n.end_lineno or 0)]
    return any(n.lineno >= line for n in stores) or bool(loops and stores)


_SEVERAL = frozenset({"unbind", "chunk", "split", "tensor_split", "hsplit", "vsplit", "dsplit"})
"""Functions and methods that return a tuple of views."""


@kind("detach_instead", statement, keeps_numbers=True)
def detach_instead(source: Source, owner: ast.stmt, _: Args) -> list[Edit]:
    """Use what ``detach()`` returns where ``detach_()`` cannot cut in place: ``h.detach_()`` → ``h = h.detach()``.

    A loop variable over a list or tuple of tensors would lose the new one, so the list is made anew before the loop:
    ``grads = [grad.detach() for grad in grads]``.
    """
    method, target = method_of(owner)
    if method != "detach_" or target is None:
        raise CannotFix("`detach_()` is part of a larger statement there")
    if not _is_plain(target):
        raise CannotFix("the tensor is the item of a container or the result of a call: a new one would be lost")
    if isinstance(target, ast.Name):
        if not scopes.is_rebindable(source, target.id, owner):
            raise CannotFix(f"{target.id} belongs to an enclosing scope and cannot be assigned here")
        bound = view_binding(source, owner, target.id)
        if bound is not None and bound.looped and isinstance(bound.statement, ast.For):
            return _list_anew(source, owner, bound.statement, target.id)
        refuse_lost(source, owner, target)
    return instead(source, owner, [written(source, "{cut} = {cut}.detach()", cut=target)])


def _is_plain(node: ast.expr) -> bool:
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name)


def _list_anew(source: Source, owner: ast.stmt, loop: ast.For, name: str) -> list[Edit]:
    """A list of cut tensors before the loop, in the place of what the loop goes through."""
    given = scopes.iterated(loop.target, loop.iter, name)
    if not isinstance(given, ast.Name) or not scopes.is_rebindable(source, given.id, loop):
        raise CannotFix(f"{name} is bound by a loop over what has no name of its own: a new tensor would be lost")
    values = scopes.values_bound(source, given)
    if not values or not all(_is_list(source, v) for v in values):
        raise CannotFix(f"{given.id} may be one tensor, and not a list of them")
    if owner not in loop.body or any(scopes.binds(s, name) for s in loop.body):
        raise CannotFix(f"not each {name} of the loop is detached")
    at = loop.body.index(owner)
    if any(name in plain_names(s) for s in loop.body[:at]):
        raise CannotFix(f"{name} is used before it is detached")
    cut = insert_before(source, loop, [f"{given.id} = [{name}.detach() for {name} in {given.id}]"])
    if len(loop.body) > 1:
        return [*cut, *delete(source, owner)]
    if loop.orelse:
        raise CannotFix(f"the loop over {name} does something else when it ends")
    return [*cut, *delete(source, loop)]


def _is_list(source: Source, value: ast.expr) -> bool:
    if isinstance(value, ast.List | ast.Tuple | ast.ListComp):
        return True
    if not isinstance(value, ast.Call):
        return False
    if isinstance(value.func, ast.Name) and value.func.id in ("list", "tuple", "sorted"):
        return True
    if scopes.stands_for(source, value.func) == "torch.autograd.grad":
        return True
    return is_method_call(value) and value.func.attr in _SEVERAL


# A copy, a list or another value in the place of one that is shared.


@kind("clone_parameters", call)
def clone_parameters(source: Source, node: ast.Call, args: Args) -> list[Edit]:
    """Run a forward on cloned parameters, so that a later step does not change what its backward needs.

    Args:
        place: the call of the module, ``net(x, k=y)`` or ``net.forward(x)``.
        untied: the module holds another one under two names, each of which PyTorch would replace and give back in turn:
            it would be left with the clone. Without ``tie_weights`` it goes by the names that the clones have.
    """
    module = node.func
    if isinstance(module, ast.Attribute) and module.attr in ("forward", "__call__"):
        module = module.value
    if not is_path(module):
        raise CannotFix("the module that is called has no name here")
    net = source.segment(module)
    if net.split(".")[-1] == "functional_call" or scopes.is_torchs(source, module):
        raise CannotFix(f"{net} is a function and not a module")
    handed = [a.value if isinstance(a, ast.Starred) else a for a in node.args] + [k.value for k in node.keywords]
    parts = {f"value{i}": value for i, value in enumerate(handed)}
    values = [f"{{{name}}}" for name in parts]
    positional = [f"*{v}" if isinstance(a, ast.Starred) else v for a, v in zip(node.args, values, strict=False)]
    behind = zip(node.keywords, values[len(positional) :], strict=True)
    named = [f'"{k.arg}": {v}' if k.arg else f"**{v}" for k, v in behind]
    name = scopes.name_for(source, "torch.func.functional_call", node)
    given = [net, f"{{k: v.clone() for k, v in {net}.named_parameters()}}"]
    given.append(f"({positional[0]},)" if len(positional) == 1 else f"({', '.join(positional)})")
    given += [f"{{{', '.join(named)}}}"] if named else []
    given += ["tie_weights=False"] if args.get("untied") else []
    return [write(source, node, f"{name.text}({', '.join(given)})", **parts), *name.edits]


@kind("use_instead", keeps_numbers=lambda args: bool(args.get("same")))
def use_instead(sources: Sources, args: Args) -> list[Edit]:
    """Use another value of the same function: ``self.score`` → ``score`` where a loss took the wrong one of two.

    Args:
        place: an expression; every operand of this name in the statement around it is replaced.
        inside: whether only those in the expression itself are.
        operand: the name, attribute or item that is read there.
        name: the name that is read instead; ``{torch.nn.Linear}`` in it is written as the file imports it.
        same: whether every number stays as it is.
    """
    find = expression if args.get("inside") else statement
    source, node = find(sources, required(args, "place"))
    wanted = path_in(required(args, "operand"))
    found = [n for n in each(node, type(wanted)) if is_read(n) and key(n) == key(wanted)]
    if not found:
        raise CannotFix(f"{args['operand']} is not read there")
    text, more = named(source, str(required(args, "name")), node)
    return [*(write(source, n, text) for n in found), *more]
