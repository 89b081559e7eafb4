"""Cut a graph: at a use, behind or at an assignment, in what is kept; or keep a copy in its place."""

from __future__ import annotations

import ast
from collections import Counter
from dataclasses import dataclass
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
from graphdoc.fixes.program_slices import assignments, binds, bound, made_of, reads
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
    stands_at,
    targets_of,
    value_given,
    words,
)
from graphdoc.source.places import Copied, Edit, Place
from graphdoc.source.scopes import stands_for

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
    if net.split(".")[-1] == "functional_call" or net.split(".")[0] in ("F", "torch"):
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
        name: the name that is read instead.
        same: whether every number stays as it is.
    """
    find = expression if args.get("inside") else statement
    source, node = find(sources, required(args, "place"))
    wanted = path_in(required(args, "operand"))
    found = [n for n in each(node, type(wanted)) if is_read(n) and key(n) == key(wanted)]
    if not found:
        raise CannotFix(f"{args['operand']} is not read there")
    return [write(source, n, str(required(args, "name"))) for n in found]


# One of several losses takes a value as a constant, or computes it once more from constants.


# What is read off a tensor and carries no graph.
_PLAIN = frozenset({"shape", "size", "dtype", "device", "ndim", "dim", "numel", "item", "detach", "data", "tolist"})


def detach_reads(source: Source, statement: ast.stmt, names: set[str]) -> list[Edit]:
    """Put ``.detach()`` behind each of the names, with the attributes and items read off it, in a statement's value.

    ``names`` are dotted paths: of ``{"out"}``, ``score(out["image"])`` becomes ``score(out["image"].detach())``.
    """
    value = getattr(statement, "value", None)
    if not isinstance(value, ast.expr):
        raise CannotFix("the statement that is to run again has no value")
    if _rooted(value, names) and any(isinstance(t, ast.Tuple | ast.List) for t in getattr(statement, "targets", ())):
        raise CannotFix(f"{ast.unparse(value)} is taken apart, it is no tensor")
    return [write(source, n, "{tensor}.detach()", tensor=n) for n in _tensors(value, names)]


def _tensors(node: ast.AST, names: set[str], called: bool = False) -> list[ast.expr]:
    """The outermost expressions that are one of the names, or something read off it."""
    if isinstance(node, ast.Name | ast.Attribute | ast.Subscript) and _rooted(node, names):
        if called and (not isinstance(node, ast.Attribute) or key(node) in names):
            raise CannotFix(f"{ast.unparse(node)} is called, it is no tensor")
        if is_attribute(node, *_PLAIN) and key(node) not in names:
            return []
        return [node.value if called and isinstance(node, ast.Attribute) else node]
    found: list[ast.expr] = []
    for child in ast.iter_child_nodes(node):
        found += _tensors(child, names, isinstance(node, ast.Call) and child is node.func)
    return found


def _rooted(node: ast.expr, names: set[str]) -> bool:
    """Whether the expression is one of the names, or an attribute or item of it."""
    while not (isinstance(node, ast.Name | ast.Attribute) and key(node) in names):
        if not isinstance(node, ast.Attribute | ast.Subscript):
            return False
        node = node.value
    return True


@kind("detach_between")
def detach_between(sources: Sources, args: Args) -> list[Edit]:
    """Detach a value where one of several losses of a block uses it.

    Args:
        places: the statements that compute the value.
        backward: the backward call of the loss that takes it as a constant.
        others: places of the other backward calls, whose losses keep the gradient.
        ways: optional; the lines, each a pair (first, last), at which the graph was made between the loss and the
            value. A statement without any of them passes names on, and no graph of its own.
        plain: optional; names of tensors that have no graph when the call fails. Without ``ways`` this counts for those
            alone that one statement binds: another may have had a graph when the loss took it up.
    """
    edits: list[Edit] = []
    for at, operands in entries(sources, args):
        edits += convert(sources, {"place": at, "operands": operands}, "detach")
    return edits


def entries(sources: Sources, args: Args) -> list[tuple[Place, list[str]]]:
    """The expressions in which the loss takes the value up, and as what: those that no other loss goes through."""
    source, backward = statement(sources, required(args, "backward"))
    seeds = [statement(sources, p)[1] for p in required(args, "places")]
    others = [statement(sources, p)[1] for p in args.get("others") or ()]
    mine = _slice(source, backward)
    theirs = {id(n) for o in others for n in _slice(source, o)}
    ways = args.get("ways")
    plain = _plain(source, backward, args)
    tainted: set[str] = set()
    shared: set[str] = set()
    for node in mine:
        seed = node in seeds
        if seed or reads(node) & tainted:
            given = bound(node) - plain
            tainted |= given
            if seed or id(node) in theirs or not _on_a_way(node, ways):
                shared |= given
    found: list[tuple[Place, list[str]]] = []
    for node in mine:
        if node in seeds or id(node) in theirs or node is backward or not _on_a_way(node, ways):
            continue
        if bound(node) and bound(node) <= plain:
            continue
        used = sorted(reads(node) & shared)
        value = getattr(node, "value", None)
        if used and isinstance(value, ast.expr):
            found.append((source.place(value), used))
    if not found:
        raise CannotFix("the loss does not use the value in a statement of its own")
    return found


def _plain(source: Source, backward: ast.stmt, args: Args) -> set[str]:
    """The names that never have a graph in this function, as far as that is known."""
    plain = set(args.get("plain") or ())
    if args.get("ways") is not None:
        return plain
    times = Counter(name for n in assignments(source, backward) for name in bound(n))
    return {name for name in plain if times[name] == 1}


def _on_a_way(node: ast.stmt, ways: list[tuple[int, int]] | None) -> bool:
    """Whether the graph that connects the loss to the value was made in this statement, as far as that is known."""
    return ways is None or stands_at(node, ways)


def _slice(source: Source, backward: ast.stmt) -> list[ast.stmt]:
    """The assignments before a backward call that its loss is made of, in order; the call itself last."""
    before = [n for n in assignments(source, backward) if source.span(n)[0] < source.span(backward)[0]]
    return [*made_of(before, reads(backward)), backward]


@dataclass(frozen=True)
class _Made:
    """A statement that computes a name from the constants by a call, and its place in the tuple that the call gives."""

    statement: ast.Assign
    item: int | None = None


@kind("score_detached")
def score_detached(sources: Sources, args: Args) -> list[Edit]:
    """Compute a value once more where one of several losses uses it, on a detached input: ``loss(D(fake.detach()))``.

    For a value that both losses share and that came through a network which this loss trains: cut behind that network,
    the loss would teach it nothing.

    Args:
        places: the statements that compute the input.
        backward: the backward call of the loss that takes the input as a constant.
        others: places of the other backward calls, whose losses keep the gradient.
        through: optional; the lines of this function below which the loss takes up the parameters that it is to train,
            as the graph has it. What is computed from the input by a call at another line is a constant as well.
        ways, plain: as in ``detach_between``.
    """
    source, made, constants = _made(sources, args)
    edits: list[Edit] = []
    for at, operands in entries(sources, args):
        for name in sorted(set(operands) - constants):
            if name not in made:
                raise CannotFix(f"{name} is not computed from the constant in one statement")
            if len(made[name]) > 1:
                raise CannotFix(f"{name} is computed at several places")
            again, item = _again(source, made[name][0], constants), made[name][0].item
            template = "{again}" if item is None else f"{{again}}[{item}]"
            edits += [write(source, n, template, again=again) for n in _reads_of(source, at, name)]
    if not edits:
        raise CannotFix("the loss takes the constant itself")
    return edits


def through_network(sources: Sources, args: Args) -> bool:
    """Whether the loss takes the value up behind a call which may be that of a network."""
    try:
        source, made, _ = _made(sources, args)
        taken = {name for _, operands in entries(sources, args) for name in operands}
    except CannotFix:
        return False
    behind = set(made)
    for later in assignments(source, statement(sources, required(args, "backward"))[1]):
        if isinstance(later, ast.Assign) and reads(later.value) & behind:
            behind |= binds(later)
    return bool(taken & behind)


def _made(sources: Sources, args: Args) -> tuple[Source, dict[str, list[_Made]], set[str]]:
    """Of the names that a call computes from the constants, the statements that do, and all the constants."""
    source, backward = statement(sources, required(args, "backward"))
    seeds = [statement(sources, p)[1] for p in required(args, "places")]
    constants = {n for s in seeds for n in binds(s)}
    lines = args.get("through")
    found: dict[str, list[_Made]] = {}
    first = min(s.lineno for s in seeds)
    for node in assignments(source, backward):
        if not isinstance(node, ast.Assign) or node in seeds or node.lineno < first:
            continue
        if not reads(node.value) & constants:
            continue
        value = node.value
        if isinstance(value, ast.Name | ast.Attribute):  # the same tensor under another name
            constants |= binds(node)
            continue
        if not isinstance(value, ast.Call) or not _may_be_network(source, value, constants):
            continue
        if lines is not None and not stands_at(node, lines):
            constants |= binds(node)
            continue
        for name, item in _targets(node):
            found.setdefault(name, []).append(_Made(node, item))
    return source, found, constants


def _targets(node: ast.Assign) -> list[tuple[str, int | None]]:
    """The names that a statement binds, each with its place in the one flat tuple that it takes apart."""
    names = binds(node)
    if len(names) == 1 and not isinstance(node.targets[0], ast.Tuple | ast.List):
        return [(name, None) for name in names]
    target = node.targets[0]
    if len(node.targets) > 1 or not isinstance(target, ast.Tuple | ast.List):
        return []
    if not all(isinstance(e, ast.Name | ast.Attribute) for e in target.elts):
        return []
    return [(key(e), i) for i, e in enumerate(target.elts)]


def _may_be_network(source: Source, call: ast.Call, constants: set[str]) -> bool:
    """A library's function gives no value that a parameter takes part in, but for those that are given to it."""
    root: ast.expr = call.func
    while isinstance(root, ast.Attribute | ast.Subscript) and key(root) not in constants:
        root = root.value
    return key(root) not in constants and stands_for(source, root).split(".")[0] not in ("torch", "math", "numpy")


def _again(source: Source, made: _Made, constants: set[str]) -> Copied:
    edits = detach_reads(source, made.statement, constants)
    if not edits:
        raise CannotFix("what is computed again does not read the constant by its name")
    return copied(source, made.statement.value, edits)


def _reads_of(source: Source, at: Place, name: str) -> list[ast.expr]:
    """Where the expression at a place reads the name."""
    value = source.node_expression(at)
    found = list(each(value, ast.Name, ast.Attribute))
    return [n for n in found if is_read(n) and key(n) == name]
