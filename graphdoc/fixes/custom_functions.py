"""Custom Functions: what their backward returns, derivatives yet to be written, and the old style made into today's."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence

from graphdoc.fixes.fix_kind import Args, CannotFix, Sources, call, kind, required, statement
from graphdoc.source.edits import (
    Piece,
    add_members,
    below,
    copied,
    decorate,
    delete,
    insert_after,
    insert_before,
    instead,
    rename,
    write,
    written,
)
from graphdoc.source.layout import first_statement
from graphdoc.source.module import Function, Source, each, is_method_call, values_of, walked
from graphdoc.source.paths import is_attribute, is_name, is_read, key, last_word, pairs, targets_of
from graphdoc.source.places import Below, Copied, Edit, Text
from graphdoc.source.scopes import bound_names, given_by, own_nodes


@kind("write_backward", statement)
def write_backward(source: Source, forward: ast.stmt, args: Args) -> list[Edit]:
    """Give a custom Function without a ``backward`` one: ``return GRADIENT_OF_X, None`` below what forward has saved.

    Args:
        place: its ``forward``.
        gradients: the source of the gradient of each input.
        outputs: the names of the gradients that it is given, one for each output.
    """
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


@kind("register_derivative", statement)
def register_derivative(source: Source, operator: ast.stmt, args: Args) -> list[Edit]:
    """Register a derivative for a custom operator: ``smooth.register_autograd(smooth_backward, setup_context=…)``.

    Args:
        place: the function that is the operator.
        tensors: the names of its inputs that are single tensors, which are saved.
        gradients: the source of the gradient of each input.
        outputs: the names of the gradients that it is given, one for each output.
    """
    block, index = source.node_block(operator)
    if not isinstance(operator, ast.FunctionDef) or isinstance(source.parents[operator], ast.ClassDef):
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
    for following in block[index + 1 :]:  # what else is registered for it stands directly below
        decorators = following.decorator_list if isinstance(following, ast.FunctionDef) else []
        if not any(ast.unparse(d).startswith(f"{name}.") for d in decorators):
            break
        last = following
    sets_up = below(written(source, f"def {setup}(ctx, inputs, output):"), keeps)
    returns = _function(source, backward, "ctx", args, _unpacked(tensors, "ctx.saved_tensors"))
    registers = f"{name}.register_autograd({backward}, setup_context={setup})"
    return insert_after(source, last, ["", "", sets_up, "", "", returns, "", "", registers])


def _function(source: Source, name: str, context: str, args: Args, first: Sequence[str], decorators: str = "") -> Below:
    """The function that returns the gradients, below what it needs for them."""
    outputs = ", ".join(required(args, "outputs"))
    header = written(source, f"{decorators}def {name}({context}, {outputs}):")
    return below(header, [*first, f"return {', '.join(required(args, 'gradients'))}"])


def _unpacked(names: Sequence[str], value: str) -> list[str]:
    """The statement that gives each of several values its name."""
    told = f"({names[0]},)" if len(names) == 1 else ", ".join(names)
    return [f"{told} = {value}"] if names else []


# Those of the old style made into today's, and what their backward returns.


@kind("return_values", statement)
def return_values(source: Source, node: ast.stmt, args: Args) -> list[Edit]:
    """Return these values: ``return g`` → ``return g, grad_w``; where a function ends without a return, one is added.

    Args:
        place: the ``return`` statement, or the function at whose end it is missing.
        values: the source of each value.
    """
    text = ", ".join(str(v) for v in required(args, "values"))
    if isinstance(node, Function):
        return insert_after(source, node.body[-1], [f"return {text}"])
    if not isinstance(node, ast.Return):
        raise CannotFix("no return stands there")
    return instead(source, node, [f"return {text}"])


@kind("pad_return")
def pad_return(sources: Sources, args: Args) -> list[Edit]:
    """A custom Function's backward returns one gradient for each input: ``return g`` → ``return g, None``.

    Args:
        place: the ``return`` statement, or the backward function (then every return in it).
        count: how many values are to be returned.
        values: optional; what each of them is, where those that are missing are not None.
    """
    source, node = statement(sources, required(args, "place"))
    count = int(required(args, "count"))
    returns = [node] if isinstance(node, ast.Return) else []
    if isinstance(node, Function):
        returns = [n for n in own_nodes(node) if isinstance(n, ast.Return)]
    values = [str(v) for v in args.get("values") or ["None"] * count]
    edits = [e for r in returns for e in _pad(source, r, values)]
    if not edits:
        raise CannotFix("no return there has fewer values than the inputs")
    return edits


def _pad(source: Source, node: ast.Return, values: list[str]) -> list[Edit]:
    value = node.value
    if value is None:
        return instead(source, node, ["return " + ", ".join(values)])
    if not isinstance(value, ast.Tuple):
        return [write(source, value, ", ".join(["{it}", *values[1:]]), it=value)] if len(values) > 1 else []
    if any(isinstance(e, ast.Starred) for e in value.elts) or not value.elts:
        raise CannotFix("the number of returned values cannot be read here")
    return add_members(source, value, values[len(value.elts) :])


_PRODUCTS = frozenset({"mm", "matmul", "bmm"})


@kind("fit_gradient", statement)
def fit_gradient(source: Source, node: ast.stmt, args: Args) -> list[Edit]:
    """Give a gradient that a custom Function returns the shape of its input: ``return w`` → ``return w.unsqueeze(0)``.

    Args:
        place: the ``return`` statement of the backward.
        index: which of the returned values, from 0.
        steps: the method calls that follow it, such as ``["squeeze(1)"]`` or ``["t()"]``.
        product: optional; True where the value has to be a product with a transposed factor, whose order the shape
            shows.
    """
    index = int(required(args, "index"))
    value = _returned(node, index)
    written = _written(source, node, value)
    if args.get("product") and not _is_product(written):
        raise CannotFix("the shape alone does not tell how the gradient is to be turned")
    calls = "".join(f".{step}" for step in required(args, "steps"))
    return [write(source, value, f"{{gradient}}{calls}", gradient=value)]


def _returned(node: ast.AST, index: int) -> ast.expr:
    value = node.value if isinstance(node, ast.Return) else None
    if isinstance(value, ast.Tuple) and not any(isinstance(e, ast.Starred) for e in value.elts):
        found = value.elts[index] if index < len(value.elts) else None
    else:
        found = value if index == 0 and not isinstance(value, ast.Tuple) else None
    if found is None or isinstance(found, ast.IfExp | ast.Constant):
        raise CannotFix("the gradient of this input cannot be read in the return statement")
    return found


def _written(source: Source, node: ast.AST, value: ast.expr) -> ast.expr:
    """What computes the value: itself, or the one assignment to its name; never one that may be None."""
    function = source.node_function(node)
    if not isinstance(value, ast.Name) or function is None:
        return value
    bound = values_of(function, value.id)
    if any(isinstance(b, ast.Constant | ast.IfExp) for b in bound):
        raise CannotFix(f"{value.id} may be None here")
    return bound[0] if len(bound) == 1 else value


def _is_product(value: ast.expr) -> bool:
    """Whether it multiplies matrices and turns one of the factors: ``x.t() @ g``, ``torch.mm(x.T, g)``; also scaled or
    masked element by element, which has the shape of the product: ``x.t() @ g * mask.t()``."""
    if isinstance(value, ast.UnaryOp):
        return _is_product(value.operand)
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Mult | ast.Div):
        return _is_product(value.left) or (isinstance(value.op, ast.Mult) and _is_product(value.right))
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.MatMult):
        factors = [value.left, value.right]
    elif is_method_call(value) and value.func.attr in _PRODUCTS:
        factors = [value.func.value, *value.args]
    else:
        return False
    return any(_turned(f) for f in factors)


def _turned(value: ast.expr) -> bool:
    called = value.func if isinstance(value, ast.Call) else value
    return is_attribute(called, "t", "T", "mT", "transpose")


@kind("static_function")
def static_function(sources: Sources, args: Args) -> list[Edit]:
    """A custom Function of the old style becomes one of today's: static methods, `apply`, what the object held in
    `ctx`.

    ``Scale(k)(x)`` becomes ``Scale.apply(x, k)``; what ``__init__`` kept is kept at the head of ``forward``, whose
    ``backward`` returns None for each of its arguments.

    Args:
        place: the call of the object, ``Scale(k)(x)``.
    """
    _, outer = call(sources, required(args, "place"))
    name = last_word(outer.func.func) if isinstance(outer.func, ast.Call) else ""
    source, function = class_named(sources, name)
    methods = {n.name: n for n in function.body if isinstance(n, ast.FunctionDef)}
    forward, backward, start = (methods.get(n) for n in ("forward", "backward", "__init__"))
    if forward is None:
        raise CannotFix("the class has no forward of its own")
    # What nothing is differentiated through needs no backward.
    both = [forward] if backward is None else [forward, backward]
    for method in methods.values():
        if method.decorator_list or takes_any_number(method.args):
            raise CannotFix(f"{method.name} is decorated, or takes a free number of arguments")
    given = [a.arg for a in start.args.args[1:]] if start is not None else []
    if set(given) & bound_names(forward):
        raise CannotFix("the arguments of forward and __init__ would get into each other's way")
    kept = [_kept(source, n) for n in start.body if _keeps(n)] if start is not None else []
    own = _held([start] if start is not None else [])
    edits = [e for m in both for e in _renamed(source, m, "ctx", own)]
    edits += [e for m in both for e in decorate(source, m, "staticmethod")]
    edits += add_members(source, forward, given)
    edits += insert_before(source, first_statement(forward), kept)
    edits += delete(source, start) if start is not None else []
    if given and backward is not None:
        count = len(forward.args.args) - 1 + len(given)
        edits += pad_return(sources, {"place": source.place(backward), "count": count})
    return edits + _applied(sources, name, start, function)


def class_named(sources: Sources, name: str) -> tuple[Source, ast.ClassDef]:
    """The one class of this name."""
    found = [(s, n) for s in sources.values() for n in each(s.tree, ast.ClassDef) if n.name == name]
    if not name or len(found) != 1:
        raise CannotFix("the class is not in sight")
    return found[0]


def takes_any_number(arguments: ast.arguments) -> bool:
    """Whether these arguments are not one for one those that ``apply`` hands over."""
    return bool(arguments.vararg or arguments.kwarg or arguments.kwonlyargs or arguments.posonlyargs)


def _keeps(node: ast.stmt) -> bool:
    """Whether a statement of ``__init__`` has a place in ``forward``."""
    if isinstance(node, ast.Expr):
        return not isinstance(node.value, ast.Constant) and "__init__" not in ast.unparse(node.value)
    return not isinstance(node, ast.Pass)


def _kept(source: Source, node: ast.stmt) -> Copied:
    """A statement of ``__init__`` as it stands in ``forward``."""
    if isinstance(node, ast.Assign) and all(
        isinstance(t, ast.Attribute) and is_name(t.value, "self") for t in node.targets
    ):
        own = [n for n in each(node, ast.Name) if n.id == "self"]
        return copied(source, node, [rename(source, n, "ctx") for n in own])
    raise CannotFix("__init__ does more than to keep its arguments")


def _applied(sources: Sources, name: str, start: ast.FunctionDef | None, function: ast.ClassDef) -> list[Edit]:
    """Every ``Name(a)(x)`` as ``Name.apply(x, a)``."""
    edits: list[Edit] = []
    for source, node in uses_of(sources, function):
        inner = source.node_call_of(node)
        outer = source.node_call_of(inner)
        if inner is None or outer is None:
            raise CannotFix(f"{name} is used in another way at line {node.lineno}")
        if outer.keywords or any(isinstance(a, ast.Starred) for a in (*outer.args, *inner.args)):
            raise CannotFix("the arguments of a call cannot be put in order")
        edits.append(applied(source, outer, node, [*outer.args, *_in_order(inner, start)]))
    return edits


def applied(source: Source, node: ast.Call, function: Piece, given: list[Piece]) -> Edit:
    """A call that becomes ``function.apply(…)``."""
    parts = {f"input{i}": value for i, value in enumerate(given)}
    inputs = ", ".join(f"{{{name}}}" for name in parts)
    return write(source, node, f"{{function}}.apply({inputs})", function=function, **parts)


def uses_of(sources: Sources, function: ast.ClassDef) -> Iterator[tuple[Source, ast.expr]]:
    """Where the name of a class is read outside of it, by itself or as an attribute of a module."""
    own = {id(n) for n in walked(function)}
    for source in sources.values():
        for node in walked(source.tree):
            name = is_name(node, function.name) and is_read(node)
            attribute = is_attribute(node, function.name)
            if isinstance(node, ast.Name | ast.Attribute) and (name or attribute) and id(node) not in own:
                yield source, node


def _in_order(node: ast.Call, start: ast.FunctionDef | None) -> list[ast.expr | str]:
    """What a call gives to ``__init__``, one for each of its arguments."""
    wanted = [a.arg for a in start.args.args[1:]] if start is not None else []
    defaults = start.args.defaults if start is not None else []
    if len(node.args) > len(wanted) or any(k.arg is None for k in node.keywords):
        raise CannotFix("the arguments of a call cannot be put in order")
    fallbacks = zip(wanted[len(wanted) - len(defaults) :], defaults, strict=True)
    given: dict[str, ast.expr | str] = {n: key(d) for n, d in fallbacks if isinstance(d, ast.Constant)}
    given |= given_by(start, node) if start is not None else {}
    missing = next((name for name in wanted if name not in given), None)
    if missing is not None:
        raise CannotFix(f"a call leaves out {missing}")
    return [given[name] for name in wanted]


_OF_CONTEXT = frozenset(
    ("save_for_backward", "saved_tensors", "needs_input_grad", "mark_dirty", "mark_non_differentiable")
)


@kind("static_function_kept")
def static_function_kept(sources: Sources, args: Args) -> list[Edit]:
    """A custom Function of the old style whose object is kept, `self.reverse = Reverse(0.1)`, becomes one of today's.

    Without a state of its own the object was only there to be called: ``self.reverse = Reverse.apply``. What an object
    keeps between its calls goes into a plain class, ``self.reverse = ReverseState(0.1)``, and is handed to ``apply``.

    Args:
        place: the call of the kept object, ``self.reverse(x)``.
        name: the Function's name.
    """
    source, outer = call(sources, required(args, "place"))
    name = str(required(args, "name"))
    where, function = class_named(sources, name)
    if where is not source:
        raise CannotFix("the class is in another file than the call")
    methods = {n.name: n for n in function.body if isinstance(n, ast.FunctionDef)}
    forward, backward = methods.pop("forward", None), methods.pop("backward", None)
    if forward is None or backward is None:
        raise CannotFix("the class has no forward and backward of its own")
    for method in (forward, backward, *methods.values()):
        if method.decorator_list or (method in (forward, backward) and takes_any_number(method.args)):
            raise CannotFix(f"{method.name} is decorated, or takes a free number of arguments")
    held = _held(methods.values())
    edits = [e for m in (forward, backward) for e in decorate(source, m, "staticmethod")]
    edits += _renamed(source, forward, "kept", held)
    edits += _renamed(source, backward, "ctx.kept", held)
    built = _built(sources, function, ast.unparse(outer.func))
    calls = _calls(source, outer, built)
    if not methods:
        if any(n.args or n.keywords for n in built):
            raise CannotFix("the object is given something that nothing in sight keeps")
        return edits + [write(source, node, f"{name}.apply") for node in built]
    state = f"{name}State"
    if any(state in (getattr(n, "id", ""), getattr(n, "name", "")) for n in each(source.tree, ast.Name, ast.ClassDef)):
        raise CannotFix(f"{state} means something else there")
    edits += add_members(source, forward, ["kept"])
    edits += insert_before(source, first_statement(forward), ["ctx.kept = kept"])
    edits += pad_return(sources, {"place": source.place(backward), "count": len(forward.args.args)})
    edits += insert_before(source, function, [_plain_class(source, state, name, list(methods.values())), "", ""])
    edits += [e for m in methods.values() for e in delete(source, m)]
    edits += [write(source, node.func, state) for node in built]
    return edits + [applied(source, node, name, [*node.args, node.func]) for node in calls]


def _held(methods: Iterable[ast.FunctionDef]) -> set[str]:
    """What an object of the class has of its own: its further methods, and what they set."""
    found: set[str] = set()
    for method in methods:
        found |= {method.name, *_set_by(method)}
    return found


def _set_by(method: ast.FunctionDef) -> set[str]:
    paths = (key(t) for n in walked(method) for t in targets_of(n))
    return {k.removeprefix("self.") for k in paths if k.startswith("self.")}


def _renamed(source: Source, method: ast.FunctionDef, keeper: str, held: set[str]) -> list[Edit]:
    """``self`` becomes ``ctx``, and the one that keeps the state where an attribute is the object's."""
    if not method.args.args or method.args.args[0].arg != "self" or method.args.defaults:
        raise CannotFix(f"{method.name} does not take self and its inputs")
    names = [n for n in each(method, ast.Name) if n.id in ("self", "ctx", "kept")]
    own = _set_by(method)
    edits = [rename(source, method.args.args[0], "ctx")]
    for node in names:
        parent = source.parents.get(node)
        attribute = parent.attr if isinstance(parent, ast.Attribute) else ""
        if node.id != "self" or not attribute:
            raise CannotFix(f"{node.id} means something else in {method.name}")
        if attribute not in held | own | _OF_CONTEXT and method.name == "forward":
            raise CannotFix(f"nothing in sight sets self.{attribute}")
        edits.append(write(source, node, keeper if attribute in held else "ctx"))
    return edits


def _plain_class(source: Source, state: str, name: str, methods: list[ast.FunctionDef]) -> Below:
    """The class that keeps what the object kept, without the call of the Function's own constructor."""
    texts: list[Text] = []
    for method in methods:
        gone = [s for s in method.body if isinstance(s, ast.Expr) and _constructs(s)]
        if gone and len(method.body) == 1:
            raise CannotFix("__init__ keeps nothing")
        left = [n for s in method.body if s not in gone for n in walked(s)]
        if any(is_name(n, name) for n in left):
            raise CannotFix(f"{method.name} names the class itself")
        texts += ["", copied(source, method, [e for s in gone for e in delete(source, s)])]
    return below(written(source, f"class {state}:"), texts[1:])


def _constructs(node: ast.Expr) -> bool:
    text = ast.unparse(node)
    return "super(" in text and "__init__" in text


def _built(sources: Sources, function: ast.ClassDef, path: str) -> list[ast.Call]:
    """Every ``Name(...)``; each has to be what this path is bound to."""
    out: list[ast.Call] = []
    for source, node in uses_of(sources, function):
        made = source.node_call_of(node)
        bound = source.node_owner(made) if made is not None else None
        if made is None or bound is None or [key(t) for t, value in pairs(bound) if value is made] != [path]:
            raise CannotFix(f"{function.name} is used in another way at line {node.lineno}")
        out.append(made)
    return out


def _calls(source: Source, outer: ast.Call, built: list[ast.Call]) -> list[ast.Call]:
    """Every call of the kept object: in the classes that keep one, or in the file."""
    path = ast.unparse(outer.func)
    scopes = {_class_around(source, n) for n in built} if path.startswith("self.") else set()
    found = list(each(source.tree, ast.Call))
    calls = [n for n in found if ast.unparse(n.func) == path and (not scopes or _class_around(source, n) in scopes)]
    if any(n.keywords or any(isinstance(a, ast.Starred) for a in n.args) for n in calls):
        raise CannotFix("the arguments of a call cannot be put in order")
    return calls


def _class_around(source: Source, node: ast.AST) -> ast.ClassDef | None:
    return next((a for a in source.node_ancestors(node) if isinstance(a, ast.ClassDef)), None)
