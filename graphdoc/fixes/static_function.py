"""A custom Function of the old style becomes one of today's: static methods, `apply`, what the object held in `ctx`.

``Scale(k)(x)`` becomes ``Scale.apply(x, k)``; what ``__init__`` kept is kept at the head of ``forward``, whose
``backward`` returns None for each of its arguments.

Args:
    place: the call of the object, ``Scale(k)(x)``.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from graphdoc.fixes.fix_kind import Args, CannotFix, Sources, call, required
from graphdoc.fixes.pad_return import edit as pad_return
from graphdoc.source.edits import Piece, add_members, copied, decorate, delete, insert_before, rename, write
from graphdoc.source.layout import first_statement
from graphdoc.source.module import Source
from graphdoc.source.paths import last_word
from graphdoc.source.places import Copied, Edit
from graphdoc.source.scopes import bound_names

KIND = "static_function"


def edit(sources: Sources, args: Args) -> list[Edit]:
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
    if set(given) & bound_names(forward) or forward.args.defaults:
        raise CannotFix("the arguments of forward and __init__ would get into each other's way")
    kept = [_kept(source, n) for n in start.body if _keeps(n)] if start is not None else []
    edits = [e for m in both for e in _with_context(source, m)]
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
    found = [
        (s, n)
        for s in sources.values()
        if s.tree is not None
        for n in ast.walk(s.tree)
        if isinstance(n, ast.ClassDef) and n.name == name
    ]
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
        isinstance(t, ast.Attribute) and isinstance(t.value, ast.Name) and t.value.id == "self" for t in node.targets
    ):
        own = [n for n in ast.walk(node) if isinstance(n, ast.Name) and n.id == "self"]
        return copied(source, node, [rename(source, n, "ctx") for n in own])
    raise CannotFix("__init__ does more than to keep its arguments")


def _with_context(source: Source, method: ast.FunctionDef) -> list[Edit]:
    """``self`` becomes ``ctx`` throughout a method."""
    if not method.args.args or method.args.args[0].arg != "self":
        raise CannotFix(f"{method.name} does not take self")
    names = [n for n in ast.walk(method) if isinstance(n, ast.Name) and n.id in ("self", "ctx")]
    if any(n.id == "ctx" for n in names):
        raise CannotFix("ctx means something else there")
    return [rename(source, method.args.args[0], "ctx"), *(rename(source, n, "ctx") for n in names)]


def _applied(sources: Sources, name: str, start: ast.FunctionDef | None, function: ast.ClassDef) -> list[Edit]:
    """Every ``Name(a)(x)`` as ``Name.apply(x, a)``."""
    edits: list[Edit] = []
    for source, node in uses_of(sources, function):
        inner = source.parents.get(node)
        outer = source.parents.get(inner) if isinstance(inner, ast.Call) and inner.func is node else None
        if not isinstance(inner, ast.Call) or not isinstance(outer, ast.Call) or outer.func is not inner:
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
    own = {id(n) for n in ast.walk(function)}
    for source in sources.values():
        for node in ast.walk(source.tree) if source.tree is not None else ():
            name = isinstance(node, ast.Name) and node.id == function.name and isinstance(node.ctx, ast.Load)
            attribute = isinstance(node, ast.Attribute) and node.attr == function.name
            if isinstance(node, ast.Name | ast.Attribute) and (name or attribute) and id(node) not in own:
                yield source, node


def _in_order(node: ast.Call, start: ast.FunctionDef | None) -> list[ast.expr | str]:
    """What a call gives to ``__init__``, one for each of its arguments."""
    wanted = start.args.args[1:] if start is not None else []
    defaults = start.args.defaults if start is not None else []
    named = {k.arg: k.value for k in node.keywords}
    if len(node.args) > len(wanted) or None in named:
        raise CannotFix("the arguments of a call cannot be put in order")
    out: list[ast.expr | str] = []
    for i, argument in enumerate(wanted):
        fallback = i - (len(wanted) - len(defaults))
        value = node.args[i] if i < len(node.args) else named.get(argument.arg)
        if value is not None:
            out.append(value)
        elif fallback >= 0 and isinstance(defaults[fallback], ast.Constant):
            out.append(ast.unparse(defaults[fallback]))
        else:
            raise CannotFix(f"a call leaves out {argument.arg}")
    return out
