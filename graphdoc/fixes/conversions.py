"""Numbers, NumPy and tensors: take out a conversion that cuts the graph, or compute and join in torch."""

from __future__ import annotations

import ast
import builtins

from graphdoc.fixes.fix_kind import Args, CannotFix, Sources, both_at, call, expression, kind, last_name, required
from graphdoc.fixes.structures import convert_expression
from graphdoc.source.edits import delete, drop_arguments, insert_after, write
from graphdoc.source.effects import method_of
from graphdoc.source.module import Source, each, is_method_call, keyword
from graphdoc.source.paths import (
    is_attribute,
    is_constant,
    is_name,
    is_read,
    key,
    last_word,
    only,
    same,
    sole_target,
    words,
)
from graphdoc.source.places import Edit
from graphdoc.source.scopes import is_torchs, name_for, stands_for

_WRAPPERS = words("float int Variable tensor as_tensor from_numpy asarray array Tensor FloatTensor stop_gradient")
_METHODS = frozenset(
    {"item", "detach", "detach_", "numpy", "tolist", "cpu", "data", "requires_grad_", "long", "int", "round", "bool"}
)
# Only a step on the way out of the graph: dropped together with the step beside it.
_LEADS_OUT = ("numpy", "tolist", "item", "detach", "data")
_ALONG = frozenset({"detach", "cpu", "numpy", "data", "item", "tolist"})


@kind("drop_call")
def drop_call(sources: Sources, args: Args) -> list[Edit]:
    """Take out what cuts the chain: ``.item()``, ``.detach()``, ``.data``, ``.cpu().numpy()``, ``float(x)``,
    ``Variable``, ``nn.Parameter``.

    A conversion that only makes sense with the other goes along (``torch.tensor(x.item())`` → ``x``,
    ``torch.tensor([x.item() for x in xs])`` → ``torch.stack([x for x in xs])``, also where the list has a name in
    between), and what NumPy computes between the two is computed in torch. A function that takes numbers alone gets
    numbers, and its result is scaled: ``torch.linspace(a.item(), b.item(), n)`` → ``a + (b - a) * torch.linspace(0, 1,
    n)``. A statement ``loss.requires_grad = True`` or ``loss.requires_grad_()`` is removed. What was made a leaf for
    its gradient, and has that read, retains it. A statement that would bind a name to itself goes.

    Args:
        place: the call, the attribute access, or the statement.
    """
    source, owner, node = both_at(sources, required(args, "place"))
    if is_attribute(sole_target(owner), "requires_grad") or method_of(owner)[0] == "requires_grad_":
        return delete(source, owner)
    if node is None and isinstance(getattr(owner, "value", None), ast.Call):
        node = owner.value  # type: ignore[attr-defined]
    core = _inside(node) if node is not None else None
    if node is None or core is None:
        raise CannotFix("no call that can be dropped stands exactly there")
    if last_name(node) == "Parameter" and any(isinstance(t, ast.Attribute) for t in getattr(owner, "targets", ())):
        raise CannotFix("a module has a parameter of this name, and takes no other tensor in its place")
    top = node
    while (deeper := _inside(core)) is not None and last_name(core) in _ALONG:
        core = deeper
    while (wider := _outside(source, top)) is not None:
        top = wider
    if isinstance(owner, ast.Expr) and owner.value is top:
        return delete(source, owner)  # ``h.detach_()`` alone: nothing else was done there
    kept = _gradient_kept(sources, source, owner, top)
    if _is_counted(source, top):
        raise CannotFix("a whole number, or an index, has no derivative")
    bound = [key(t) for t in owner.targets] if isinstance(owner, ast.Assign) and owner.value is top else []
    if bound == [key(core)] and not kept:
        return delete(source, owner)
    joined = _made_of_elements(source, top)
    if joined is not None and isinstance(joined.args[0], ast.Name):
        return [write(source, top, "{core}", core=core), *_stacked(source, joined, "list"), *kept]
    if joined is not None:
        return [*_stacked(source, joined), *kept]
    rest = _up_to_a_tensor(sources, source, top, last_name(top) == "numpy") or _of_numbers_alone(source, top)
    return [write(source, top, "{core}", core=core), *rest, *kept]


def _is_counted(source: Source, node: ast.expr) -> bool:
    """Whether a whole number is made of it at once, or it is where a slice ends."""
    match source.parents.get(node):
        case ast.Call(func=ast.Name(id="int" | "round" | "range"), args=given):
            return node in given
        case above:
            return isinstance(above, ast.Slice)


_SCALED = {
    "linspace": (("start", "end"), "{start} + ({end} - {start}) * {function}(0, 1{rest})"),
    "full": (("size", "fill_value"), "{fill_value} * {ones}({size}{rest})"),
    "full_like": (("input", "fill_value"), "{fill_value} * {ones}({input}{rest})"),
}
"""Functions of torch that take numbers and record nothing of a tensor in their place: their first arguments, and the
same values by a recorded operation."""


def _of_numbers_alone(source: Source, node: ast.expr) -> list[Edit]:
    """The call of such a function around a value that keeps its graph now; none where there is none."""
    above = source.parents.get(node)
    while isinstance(above, ast.BinOp | ast.UnaryOp | ast.keyword):
        above = source.parents.get(above)
    if not isinstance(above, ast.Call) or last_name(above) not in _SCALED:
        return []
    name = last_name(above)
    written = ast.unparse(above.func)
    if stands_for(source, above.func) != f"torch.{name}" or any(isinstance(a, ast.Starred) for a in above.args):
        return []
    names, template = _SCALED[name]
    given: dict[str, ast.expr] = dict(zip(names, above.args, strict=False))
    given |= {k.arg: k.value for k in above.keywords if k.arg in names}
    if set(given) != set(names):
        return []
    others = {f"given{i}": a for i, a in enumerate(above.args[len(names) :])}
    # It was a leaf so that it has a gradient of its own; now it is a result.
    named = {k.arg: k.value for k in above.keywords if k.arg and k.arg not in (*names, "requires_grad")}
    rest = "".join([*(f", {{{n}}}" for n in others), *(f", {n}={{{n}}}" for n in named)])
    template = template.replace("{rest}", rest).replace("{function}", written)
    template = template.replace("{ones}", written.replace("full", "ones"))
    return [write(source, above, template, **given, **others, **named)]


def _up_to_a_tensor(sources: Sources, source: Source, node: ast.expr, array: bool) -> list[Edit]:
    """What turns NumPy's functions around an array, up to the call that makes a tensor of it, into torch's; none where
    it does not become one in the same expression. What is given an ``array`` is not given a tensor by hope."""
    edits: list[Edit] = []
    above = source.parents.get(node)
    while isinstance(above, ast.expr):
        if isinstance(above, ast.Call) and above.args[:1] == [node] and last_name(above) in _MAKERS:
            return [*edits, write(source, above, "{it}", it=node)]
        if isinstance(above, ast.Call) and node in above.args:
            renamed = _in_torch(source, above)
            if renamed is None and (not array or hasattr(builtins, key(above.func)) or is_torchs(source, above.func)):
                return []
            edits += _function_in_torch(sources, source, above) if renamed is None else renamed
        elif not isinstance(above, ast.BinOp | ast.UnaryOp):
            return []
        node, above = above, source.parents.get(above)
    return []


def _in_torch(source: Source, node: ast.Call) -> list[Edit] | None:
    """NumPy's function as torch's; None where it is none of NumPy's, or torch has none with the same arguments."""
    name = last_name(node)
    along = name in _RUNNING and len(node.args) + len(node.keywords) > 1
    torch = name if name in _ELEMENTWISE or along else _REDUCTIONS.get(name)
    return _renamed(source, node, torch) if torch is not None and _is_numpy(source, node) else None


def _function_in_torch(sources: Sources, source: Source, node: ast.Call) -> list[Edit]:
    """A function of the program's own that is called here alone, computing in torch what it computed by NumPy."""
    own = next((d for d in source.tree.body if isinstance(d, ast.FunctionDef) and is_name(node.func, d.name)), None)
    named = [last_word(n) for s in sources.values() for n in each(s.tree, ast.Name, ast.Attribute)]
    if own is None or named.count(own.name) != 1:
        raise CannotFix(f"`{ast.unparse(node.func)}` is given an array there, and does not take a tensor for sure")
    edits: list[Edit] = []
    for inner in each(own, ast.Call):
        if is_method_call(inner, "copy"):
            edits.append(write(source, inner.func, "{it}.clone", it=inner.func.value))
        elif (renamed := _in_torch(source, inner)) is not None:
            edits += renamed
        elif key(inner.func) not in ("len", "range") and not is_method_call(inner, "sum", "mean", *_RUNNING):
            raise CannotFix(f"`{own.name}` calls `{ast.unparse(inner.func)}`, which torch writes in another way")
    return edits


def _is_numpy(source: Source, node: ast.Call) -> bool:
    return stands_for(source, node.func) == f"numpy.{last_name(node)}"


def _gradient_kept(sources: Sources, source: Source, owner: ast.stmt, top: ast.expr) -> list[Edit]:
    """``retain_grad()`` for what was made a leaf so that its ``.grad`` can be read: a result keeps none by itself, and
    refuses to where nothing is recorded."""
    asked = isinstance(top, ast.Call) and is_constant(keyword(top, "requires_grad"), True)
    target = sole_target(owner) if isinstance(owner, ast.Assign) and owner.value is top else None
    if not asked or target is None:
        return []
    everywhere = sources.values() if isinstance(target, ast.Attribute) else [source]
    reads = (n for s in everywhere for n in each(s.tree, ast.Attribute) if n.attr == "grad" and is_read(n))
    if not any(same(n.value, target) for n in reads):
        return []
    name = key(target)
    return insert_after(source, owner, [f"if {name}.requires_grad:\n    {name}.retain_grad()"])


def _inside(node: ast.expr) -> ast.expr | None:
    """What stays when this call or attribute access is dropped."""
    if is_method_call(node, *_METHODS):
        return node.func.value
    if isinstance(node, ast.Call) and last_name(node) in {*_WRAPPERS, "Parameter"}:
        return node.args[0] if node.args and not isinstance(node.args[0], ast.Starred) else None
    return node.value if is_attribute(node, "data") else None


def _outside(source: Source, node: ast.expr) -> ast.expr | None:
    """The conversion around this one that would fail or cut again without it."""
    above, outer = source.parents.get(node), source.node_method_of(node)
    if outer is None and is_attribute(above, "data"):
        return above
    if outer is not None and outer.func.attr in _ALONG:
        leads_out = outer.func.attr != "cpu" or is_attribute(source.parents.get(outer), *_LEADS_OUT)
        return outer if leads_out else None
    if isinstance(above, ast.Call) and above.args and above.args[0] is node and last_name(above) in _WRAPPERS:
        return above if last_name(above) not in ("int", "array", "asarray") else None
    return None


@kind("to_numpy", expression)
def to_numpy(source: Source, node: ast.expr, _: Args) -> list[Edit]:
    """Take a tensor out of the graph before it becomes an array: ``x.numpy()`` → ``x.detach().cpu().numpy()``."""
    if is_method_call(node, "numpy"):
        inner = node.func.value
        methods = []
        step: ast.expr = inner
        while is_method_call(step):
            methods.append(step.func.attr)
            step = step.func.value
        if "detach" in methods:
            raise CannotFix("the tensor is already detached there")
        if methods[:1] == ["cpu"] and is_method_call(inner):
            tensor = inner.func.value
            return [write(source, tensor, "{it}.detach()", it=tensor)]
        return [write(source, inner, "{it}.detach().cpu()", it=inner)]
    if isinstance(node, ast.Call) and last_name(node) in ("asarray", "array", "from_dlpack") and node.args:
        node = node.args[0]
    return convert_expression(source, node, "tensor", "detach().cpu().numpy")


_ELEMENTWISE = frozenset(
    ("exp", "expm1", "log", "log1p", "log2", "log10", "sqrt", "square", "abs", "sign")
    + ("sin", "cos", "tan", "sinh", "cosh", "tanh", "clip")
)
"""One tensor in, one of its shape out, under the same name and with the same arguments by position."""

_REDUCTIONS = {"sum": "sum", "mean": "mean", "prod": "prod"} | dict.fromkeys(("max", "amax"), "amax")
_REDUCTIONS |= dict.fromkeys(("min", "amin"), "amin")
_RUNNING = ("cumsum", "cumprod")
"""Of both libraries where an axis is named."""
_JOINS = {"stack": "stack", "vstack": "vstack", "hstack": "hstack", "concatenate": "cat", "concat": "cat"}


@kind("torch_instead_of_numpy", call)
def torch_instead_of_numpy(source: Source, node: ast.Call, args: Args) -> list[Edit]:
    """Compute in torch what NumPy or ``math`` was asked for: ``np.sum(layers, 0)`` → ``torch.stack(layers).sum(0)``,
    ``math.exp(x)`` → ``torch.exp(x)``.

    The numbers are the same, and the graph goes on. Reductions of a list are those that both libraries define alike:
    the standard deviation and the median are not among them.

    Args:
        place: the call of NumPy's function, or of that of ``math``.
        structure: ``"list"`` where its argument is a variable that holds several tensors.
    """
    name = last_name(node)
    of_math = stands_for(source, node.func) == f"math.{name}"
    if not (of_math or _is_numpy(source, node)) or not node.args or isinstance(node.args[0], ast.Starred):
        raise CannotFix("the call is no function of NumPy's that torch has too")
    if any(k.arg != "axis" for k in node.keywords):
        raise CannotFix("the call has arguments that torch writes in another way")
    several = args.get("structure") == "list" or isinstance(node.args[0], ast.List | ast.ListComp)
    if name in _ELEMENTWISE and not several and not node.keywords and not (of_math and len(node.args) > 1):
        return _renamed(source, node, name)
    if name in _JOINS and several and not node.keywords:
        return _renamed(source, node, _JOINS[name])
    if name in _REDUCTIONS and several:
        return _reduced(source, node, _REDUCTIONS[name])
    raise CannotFix(f"torch has no {name} that does the same")


def _renamed(source: Source, node: ast.Call, name: str) -> list[Edit]:
    torch = name_for(source, f"torch.{name}", node)
    return [write(source, node.func, torch.text), *torch.edits]


def _reduced(source: Source, node: ast.Call, method: str) -> list[Edit]:
    """``torch.stack(elements).sum(axis)``: the axis that NumPy counts in the array of the whole list is the same."""
    given = node.args[0]
    axis = node.args[1] if len(node.args) == 2 else next((k.value for k in node.keywords), None)
    if len(node.args) > 2 or (len(node.args) == 2 and node.keywords):
        raise CannotFix("the call has arguments that torch writes in another way")
    if method in ("prod", "amax", "amin") and axis is not None and not isinstance(axis, ast.Constant):
        raise CannotFix("the axes of the reduction are not written at the call")
    stack = name_for(source, "torch.stack", node)
    several = "{given}" if isinstance(given, ast.List | ast.ListComp) else "list({given})"
    over = {"axis": axis} if axis is not None and ast.unparse(axis) != "None" else {}
    template = f"{stack.text}({several}).{method}({'{axis}' if over else ''})"
    return [write(source, node, template, given=given, **over), *stack.edits]


_MAKERS = ("tensor", "as_tensor", "Tensor", "FloatTensor", "DoubleTensor", "from_numpy")
_LISTS = ("list", "tuple", "sorted")


@kind("stack_instead_of_tensor", call, keeps_loss=True)
def stack_instead_of_tensor(source: Source, node: ast.Call, args: Args) -> list[Edit]:
    """Join tensors with their graphs: ``torch.tensor([a, b])`` → ``torch.stack([a, b])``; ``torch.tensor(x)`` → ``x``.

    ``.item()`` and ``float()`` on the elements go too.

    Args:
        place: the call of ``torch.tensor`` (``as_tensor``, ``Tensor``, ``FloatTensor``).
        structure: ``"list"`` where the argument is a variable that holds a list; ``"tensor"`` by default.
        flat: True where the tensors have dimensions, of one element each: ``torch.tensor`` makes numbers of them.
        nested: True where it is a list of lists: each is joined by itself, where it is written.
        mixed: True where numbers stand among the tensors: each entry is made a tensor, which one stays.
    """
    if last_name(node) not in _MAKERS or not node.args:
        raise CannotFix("the call does not make a tensor from a list")
    if args.get("mixed"):
        return _each_a_tensor(source, node, bool(args.get("flat") or args.get("nested")))
    return _stacked(source, node, args.get("structure"), bool(args.get("flat")), bool(args.get("nested")))


def _made_of_elements(source: Source, node: ast.expr) -> ast.Call | None:
    """The call that makes a tensor of a list of which this is an element, or of the name that it alone reads it by."""
    around = source.parents.get(node)
    listed = isinstance(around, ast.List | ast.Tuple) or (isinstance(around, ast.ListComp) and around.elt is node)
    maker = source.parents.get(around) if listed and around is not None else None
    if isinstance(target := sole_target(maker), ast.Name):
        scopes = (n for n in source.node_ancestors(target) if isinstance(n, ast.FunctionDef | ast.Module))
        around = only([n for n in each(next(scopes), ast.Name) if n.id == target.id and n is not target])
        maker = source.parents.get(around) if around is not None else None
    return maker if isinstance(maker, ast.Call) and maker.args[:1] == [around] and last_name(maker) in _MAKERS else None


def _stacked(
    source: Source, node: ast.Call, structure: object = None, flat: bool = False, nested: bool = False
) -> list[Edit]:
    given = node.args[0]
    several = isinstance(given, ast.List | ast.Tuple | ast.ListComp | ast.GeneratorExp)
    several = several or (isinstance(given, ast.Call) and last_name(given) in _LISTS)
    if not several and not (structure == "list" or (isinstance(structure, dict) and "list" in structure)):
        return [write(source, node, "{given}", given=given)]
    name = name_for(source, "torch.stack", node)
    rows = [e for e in getattr(given, "elts", ()) if isinstance(e, ast.List)]
    if (nested and not rows) or (rows and (len(rows) != len(getattr(given, "elts", ())) or flat)):
        widths = {len(row.elts) for row in rows}
        if len(widths) != 1 or any(isinstance(e, ast.List | ast.Starred) for row in rows for e in row.elts):
            raise CannotFix("the lists of tensors that stand in the list are not written as rows of one length")
    shape = f"{len(rows)}, -1" if rows else "-1"
    return [
        write(source, node.func, name.text),
        *drop_arguments(source, node, lambda index, keyword: index > 0 or keyword is not None),
        *([write(source, node, f"{{it}}.reshape({shape})", it=node)] if flat else ()),
        *_elements(source, given, name.text),
        *name.edits,
    ]


def _each_a_tensor(source: Source, node: ast.Call, shaped: bool) -> list[Edit]:
    """``torch.tensor(x, dtype=d)`` → ``torch.stack([torch.as_tensor(entry, dtype=d) for entry in x])``."""
    if shaped or last_name(node) not in ("tensor", "as_tensor"):
        raise CannotFix("plain numbers stand among the elements")
    stack, entry = (name_for(source, f"torch.{name}", node) for name in ("stack", "as_tensor"))
    kept = {k.arg: k.value for k in node.keywords if k.arg in ("dtype", "device")}
    each_one = ", ".join(["entry", *(f"{name}={{{name}}}" for name in kept)])
    template = f"{stack.text}([{entry.text}({each_one}) for entry in {{given}}])"
    return [
        write(source, node, template, given=node.args[0], **kept),
        *_elements(source, node.args[0], stack.text, numbers=True),
        *(stack.edits or entry.edits),
    ]


def _elements(source: Source, given: ast.expr, stack: str, numbers: bool = False) -> list[Edit]:
    """What makes tensors of the entries of a list again; ``numbers``: plain ones may stand among them."""
    if isinstance(given, ast.GeneratorExp):
        raise CannotFix("torch.stack takes a list, not a generator")
    if isinstance(given, ast.List | ast.Tuple) and not given.elts:
        raise CannotFix("the list is empty")
    entries = [given.elt] if isinstance(given, ast.ListComp) else getattr(given, "elts", [])
    return [e for entry in entries for e in _element(source, entry, stack, numbers)]


def _element(source: Source, node: ast.expr, stack: str, numbers: bool) -> list[Edit]:
    match node:
        case ast.Constant() | ast.UnaryOp(operand=ast.Constant()) if not numbers:
            raise CannotFix("plain numbers stand among the elements")
        case ast.List() | ast.ListComp():
            return [write(source, node, f"{stack}({{it}})", it=node), *_elements(source, node, stack)]
        case ast.Call(func=ast.Attribute(attr="item", value=it)) | ast.Call(func=ast.Name(id="float"), args=[it]):
            return [write(source, node, "{it}", it=it)]
    return []
