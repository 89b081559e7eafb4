"""A custom Function of the old style whose object is kept, `self.reverse = Reverse(0.1)`, becomes one of today's.

Without a state of its own the object was only there to be called: ``self.reverse = Reverse.apply``. What an object
keeps between its calls goes into a plain class, ``self.reverse = ReverseState(0.1)``, and is handed to ``apply``.

Args:
    place: the call of the kept object, ``self.reverse(x)``.
    name: the Function's name.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from graphdoc.fixes.fix_kind import Args, CannotFix, Sources, call, required
from graphdoc.fixes.pad_return import edit as pad_return
from graphdoc.fixes.static_function import applied, class_named, takes_any_number, uses_of
from graphdoc.source.edits import add_members, below, copied, decorate, delete, insert_before, rename, write, written
from graphdoc.source.layout import first_statement
from graphdoc.source.module import Source
from graphdoc.source.paths import key, targets_of
from graphdoc.source.places import Below, Edit, Text

KIND = "static_function_kept"

_OF_CONTEXT = frozenset(
    ("save_for_backward", "saved_tensors", "needs_input_grad", "mark_dirty", "mark_non_differentiable")
)


def edit(sources: Sources, args: Args) -> list[Edit]:
    source, outer = call(sources, required(args, "place"))
    name = str(required(args, "name"))
    where, function = class_named(sources, name)
    if where is not source:
        raise CannotFix("the class stands in another file than the call")
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
    if any(
        isinstance(n, ast.Name | ast.ClassDef) and state in (getattr(n, "id", ""), getattr(n, "name", ""))
        for n in ast.walk(source.tree or ast.Module([], []))
    ):
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
    paths = (key(t) for n in ast.walk(method) for t in targets_of(n))
    return {k.removeprefix("self.") for k in paths if k.startswith("self.")}


def _renamed(source: Source, method: ast.FunctionDef, keeper: str, held: set[str]) -> list[Edit]:
    """``self`` becomes ``ctx``, and the one that keeps the state where an attribute is the object's."""
    if not method.args.args or method.args.args[0].arg != "self" or method.args.defaults:
        raise CannotFix(f"{method.name} does not take self and its inputs")
    names = [n for n in ast.walk(method) if isinstance(n, ast.Name) and n.id in ("self", "ctx", "kept")]
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
        left = [n for s in method.body if s not in gone for n in ast.walk(s)]
        if any(isinstance(n, ast.Name) and n.id == name for n in left):
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
        made = source.parents.get(node)
        bound = source.parents.get(made) if isinstance(made, ast.Call) and made.func is node else None
        kept = isinstance(bound, ast.Assign) and bound.value is made and [key(t) for t in bound.targets] == [path]
        if not isinstance(made, ast.Call) or not kept:
            raise CannotFix(f"{function.name} is used in another way at line {node.lineno}")
        out.append(made)
    return out


def _calls(source: Source, outer: ast.Call, built: list[ast.Call]) -> list[ast.Call]:
    """Every call of the kept object: in the classes that keep one, or in the file."""
    path = ast.unparse(outer.func)
    scopes = {_class_around(source, n) for n in built} if path.startswith("self.") else set()
    found = [n for n in ast.walk(source.tree or ast.Module([], [])) if isinstance(n, ast.Call)]
    calls = [n for n in found if ast.unparse(n.func) == path and (not scopes or _class_around(source, n) in scopes)]
    if any(n.keywords or any(isinstance(a, ast.Starred) for a in n.args) for n in calls):
        raise CannotFix("the arguments of a call cannot be put in order")
    return calls


def _class_around(source: Source, node: ast.AST) -> ast.ClassDef | None:
    return next((a for a in source.node_ancestors(node) if isinstance(a, ast.ClassDef)), None)
