"""Make an object once instead of in each round: its statement goes in front of the loop, also of a caller's loop.

Out of a function it is handed in: ``def train(model): scaler = GradScaler()`` → ``def train(model, scaler):``.

Args:
    place: the statement that makes it, ``scaler = GradScaler(…)``.
"""

from __future__ import annotations

import ast

from graphdoc.fixes.fix_kind import Args, CannotFix, Sources, kind, required, statement
from graphdoc.source.edits import add_argument, add_members, copied, delete, insert_after, insert_before, write
from graphdoc.source.module import Function, Loop, Source
from graphdoc.source.paths import is_name, names_read, plain_names
from graphdoc.source.places import Edit
from graphdoc.source.scopes import bound_names


@kind("make_once")
def edit(sources: Sources, args: Args) -> list[Edit]:
    source, node = statement(sources, required(args, "place"))
    if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call) or len(node.targets) != 1:
        raise CannotFix("what is made there is not simply given a name")
    function = source.node_function(node)
    loop = _outermost(source, node)
    if loop is not None:
        _check(loop, names_read(node.value))
        return [*delete(source, node), *insert_before(source, loop, [copied(source, node)])]
    if not isinstance(function, Function):
        raise CannotFix("it is made once already")
    if isinstance(node.targets[0], ast.Attribute):
        return _in_init(source, node, function)
    if not isinstance(node.targets[0], ast.Name) or source.node_block(node) is None or node not in function.body:
        raise CannotFix("whether it is made depends on a condition")
    return _handed_in(source, node, node.targets[0].id, node.value, function)


def _in_init(source: Source, node: ast.Assign, function: Function) -> list[Edit]:
    """``self.scaler = …`` of a method is a statement of ``__init__``, where it needs nothing of the method's own."""
    owner = source.parents.get(function)
    inits = [s for s in getattr(owner, "body", []) if isinstance(s, Function) and s.name == "__init__"]
    if not isinstance(owner, ast.ClassDef) or len(inits) != 1 or function is inits[0]:
        raise CannotFix("no __init__ of its class can make it")
    own = bound_names(function) - {function.args.args[0].arg if function.args.args else ""}
    if taken := own & names_read(node.value):
        raise CannotFix(f"{min(taken)} is not known in __init__")
    return [*delete(source, node), *insert_after(source, inits[0].body[-1], [copied(source, node)])]


def _handed_in(source: Source, node: ast.Assign, name: str, value: ast.Call, function: Function) -> list[Edit]:
    """The one caller makes it in front of its loop and hands it in."""
    call = _only_call(source, function)
    at = _outermost(source, call)
    caller = source.node_function(call)
    if at is None:
        raise CannotFix("the function that makes it is called in no loop")
    arguments = function.args
    if arguments.vararg or arguments.kwarg or name in bound_names(caller or source.tree or function):
        raise CannotFix("it cannot be handed in")
    given = _given(function, call)
    inside = []
    for read in ast.walk(value):
        if isinstance(read, ast.Name) and read.id in given:
            inside.append(write(source, read, "{given}", given=given[read.id]))
        elif isinstance(read, ast.Name) and read.id in bound_names(function):
            raise CannotFix(f"{read.id} is not known where the function is called")
    used = set().union(*(names_read(e) for n, e in given.items() if n in names_read(value)))
    _check(at, used)
    default = "=None" if arguments.defaults and not arguments.kwonlyargs else ""
    return [
        *delete(source, node),
        *add_members(source, function, [f"{name}{default}"]),
        *add_argument(source, call, f"{name}={name}"),
        *insert_before(source, at, [copied(source, node, inside)]),
    ]


def _only_call(source: Source, function: Function) -> ast.Call:
    named = [
        n
        for n in ast.walk(source.tree or ast.Module([], []))
        if is_name(n, function.name) or (isinstance(n, ast.Attribute) and n.attr == function.name)
    ]
    call = source.parents.get(named[0]) if len(named) == 1 else None
    if not isinstance(call, ast.Call) or call.func is not named[0]:
        raise CannotFix("the function that makes it is not called at one place alone")
    return call


def _given(function: Function, call: ast.Call) -> dict[str, ast.expr]:
    """The caller's expressions for the function's parameters."""
    names = [a.arg for a in (*function.args.posonlyargs, *function.args.args)]
    if isinstance(call.func, ast.Attribute) and names and names[0] in ("self", "cls"):
        names = names[1:]
    if any(isinstance(a, ast.Starred) for a in call.args) or any(k.arg is None for k in call.keywords):
        raise CannotFix("what the function is given is not written out")
    return {**dict(zip(names, call.args, strict=False)), **{k.arg: k.value for k in call.keywords if k.arg}}


def _outermost(source: Source, node: ast.AST) -> ast.stmt | None:
    """The outermost loop around a node, in its function."""
    found: ast.stmt | None = None
    for around in source.node_ancestors(node):
        if isinstance(around, Function | ast.Lambda | ast.ClassDef):
            break
        if isinstance(around, Loop):
            found = around
    return found


def _check(loop: ast.stmt, read: set[str]) -> None:
    """Nothing that it is made of is bound in the loop."""
    bound = plain_names(loop, ast.Store)
    if taken := bound & {r.split(".")[0] for r in read}:
        raise CannotFix(f"{min(taken)}, which it is made of, is another one in each round")
