"""Names: what a function binds, what the file imports, what torch is called here, which names are displays."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import takewhile

from graphdoc.source.edits import insert_after, insert_before
from graphdoc.source.module import Function, Loop, Source, each, walked
from graphdoc.source.paths import is_name, is_read, key, pairs, path_of, plain_names, targets_of
from graphdoc.source.places import Beside, Edit

Scope = ast.FunctionDef | ast.AsyncFunctionDef | ast.Module


def scope_of(source: Source, node: ast.AST) -> Scope:
    """The function whose local names an expression or statement uses, or the module."""
    return source.node_function(node) or source.tree


def own_nodes(scope: ast.AST) -> list[ast.AST]:
    """The nodes of a scope without those of the functions and classes defined in it."""
    found: list[ast.AST] = []
    queue = list(ast.iter_child_nodes(scope))
    while queue:
        node = queue.pop()
        found.append(node)
        if not isinstance(node, Function | ast.Lambda | ast.ClassDef):
            queue += ast.iter_child_nodes(node)
    return found


def bound_names(scope: Scope) -> set[str]:
    """The names that are local to a function (parameters included) or bound at the top of a module."""
    names: set[str] = set()
    outside: set[str] = set()
    for node in own_nodes(scope):
        if isinstance(node, ast.Global | ast.Nonlocal):
            outside.update(node.names)
        elif isinstance(node, Function | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names.update((a.asname or a.name).split(".")[0] for a in node.names)
        elif isinstance(node, ast.ExceptHandler) and node.name:
            names.add(node.name)
        names.update(t.id for t in targets_of(node) if isinstance(t, ast.Name))
    if not isinstance(scope, ast.Module):
        names.update(parameters(scope))
    return names - outside


def parameters(function: Function) -> list[str]:
    """The names of a function's parameters in order."""
    a = function.args
    every = [*a.posonlyargs, *a.args, *([a.vararg] if a.vararg else []), *a.kwonlyargs, *([a.kwarg] if a.kwarg else [])]
    return [p.arg for p in every]


def given_by(function: Function | ast.Lambda, call: ast.Call) -> dict[str, ast.expr]:
    """What a call gives to the parameters of a function, ``self`` not counted, as far as it is written out: what stands
    behind a ``*rest``, and in a ``**more``, is not."""
    names = [a.arg for a in (*function.args.posonlyargs, *function.args.args)]
    names = names[names[:1] in (["self"], ["cls"]) :]
    plain = takewhile(lambda a: not isinstance(a, ast.Starred), call.args)
    named = {k.arg: k.value for k in call.keywords if k.arg in {*names, *(a.arg for a in function.args.kwonlyargs)}}
    return {**dict(zip(names, plain, strict=False)), **named}


def is_rebindable(source: Source, name: str, at: ast.AST) -> bool:
    """Whether ``name = …`` at this node binds the variable that reading ``name`` here means.

    False for a global or an enclosing function's variable that the function does not declare.
    """
    scope = scope_of(source, at)
    if isinstance(scope, ast.Module):
        return True
    declared = {n for node in own_nodes(scope) if isinstance(node, ast.Global | ast.Nonlocal) for n in node.names}
    return name in bound_names(scope) | declared


def is_readable(source: Source, name: str, at: ast.AST) -> bool:
    """Whether a name can be read at a node: bound in its function, in one around it, or at the top of the file."""
    scope = scope_of(source, at)
    return name in bound_names(scope) or (not isinstance(scope, ast.Module) and is_readable(source, name, scope))


def reads(node: ast.AST, name: str, apart: Collection[ast.AST] = ()) -> bool:
    """Whether a plain name is read in a piece of code, but for some nodes in it."""
    found = (n for n in each(node, ast.Name) if n.id == name and isinstance(n.ctx, ast.Load))
    return any(n not in apart for n in found)


def binds(node: ast.AST, path: str, in_place: bool = True) -> bool:
    """Whether a piece of code binds a name or path; ``in_place``: ``x += 1`` counts."""
    found = (n for n in each(node, ast.stmt) if in_place or not isinstance(n, ast.AugAssign))
    return any(key(t) == path for n in found for t in targets_of(n))


def is_read_later(source: Source, at: ast.stmt, name: str, within: ast.AST | None = None) -> bool:
    """Whether what a name stands for after a statement may be read: before it is bound anew, or in an inner function.

    ``within`` is a loop around the statement: only the rest of its round counts.
    """
    if isinstance(at, ast.Return):
        return reads(at, name)
    above = [at, *source.node_ancestors(at)]
    # A write into it (``x += f(x)``) is for itself; ``x = f(x)`` reads in the next round what it gave in this one.
    own = () if isinstance(at, ast.Assign) and any(is_name(t, name) for t in at.targets) else walked(at)
    inner = each(within or scope_of(source, at), ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
    if any(f not in above and reads(f, name, own) for f in inner):
        return True
    statement = at
    while statement in source.parents:
        block, index = source.node_block(statement)
        used = _next_use(block[index + 1 :], name)
        owner = source.node_owner(source.parents[statement])
        if used is not None or owner is within or owner is None or isinstance(owner, Function | ast.ClassDef):
            return bool(used) or isinstance(owner, ast.ClassDef)
        if isinstance(owner, Loop):
            bound = not isinstance(owner, ast.While) and name in plain_names(owner.target)
            before = owner.body[: next((n for n, s in enumerate(owner.body) if s in above), -1) + 1]
            test = isinstance(owner, ast.While) and reads(owner.test, name)
            if test or _next_use(owner.orelse, name) or (not bound and _next_use(before, name, own)):
                return True
        elif isinstance(owner, ast.Try) and any(reads(n, name, own) for n in (*owner.handlers, *owner.finalbody)):
            return True
        statement = owner
    return False


def _next_use(statements: list[ast.stmt], name: str, apart: Collection[ast.AST] = ()) -> bool | None:
    """Whether the first statement that uses a name reads it, or binds it anew; None where none of them uses it."""
    for s in statements:
        bound = any(is_name(t, name) for t in targets_of(s))
        if reads(s.iter if bound and isinstance(s, ast.For | ast.AsyncFor) else s, name, apart):
            return True
        if bound and isinstance(s, ast.Assign | ast.AnnAssign | ast.With | ast.AsyncWith):
            return False
    return None


def fresh_name(source: Source, *wanted: str) -> str:
    """The first of the wanted names that the file does not use; the last with a number where all are taken."""
    used = {n.id if isinstance(n, ast.Name) else n.arg for n in each(source.tree, ast.Name, ast.arg)}
    for name in wanted:
        if name not in used:
            return name
    number = 2
    while f"{wanted[-1]}{number}" in used:
        number += 1
    return f"{wanted[-1]}{number}"


@dataclass(frozen=True)
class Name:
    """How to write a dotted name here (``torch.no_grad`` as ``th.no_grad``), and the import that it needs, if any."""

    text: str
    edits: tuple[Edit, ...] = ()


def imported_as(source: Source, dotted: str, at: ast.AST | None = None) -> str | None:
    """How a dotted name can be written at a node with the imports that are there; None where it cannot."""
    hidden: set[str] = set()
    scopes: list[Scope] = [source.tree]
    function = source.node_function(at) if at is not None else None
    while function is not None:
        scopes.insert(0, function)
        function = source.node_function(function)
    best: str | None = None
    for scope in scopes:
        for node in own_nodes(scope):
            if not isinstance(node, ast.Import | ast.ImportFrom):
                continue
            for alias in node.names:
                text = _spelled(node, alias, dotted)
                if text is not None and text.split(".")[0] not in hidden and (best is None or len(text) < len(best)):
                    best = text
        if best is not None:
            return best
        if not isinstance(scope, ast.Module):
            hidden |= bound_names(scope)
    return None


def _spelled(node: ast.Import | ast.ImportFrom, alias: ast.alias, dotted: str) -> str | None:
    """How one imported name spells the dotted name, if it does."""
    if isinstance(node, ast.ImportFrom):
        if node.level or not node.module:
            return None
        full, local = f"{node.module}.{alias.name}", alias.asname or alias.name
        if alias.name == "*":
            return dotted[len(node.module) + 1 :] if dotted.rpartition(".")[0] == node.module else None
    elif alias.asname:
        full, local = alias.name, alias.asname
    else:  # ``import a.b.c`` binds a, and makes a.b and a.b.c reachable
        full = local = alias.name.split(".")[0]
    if dotted == full:
        return local
    return local + dotted[len(full) :] if dotted.startswith(full + ".") else None


def name_for(source: Source, dotted: str, at: ast.AST | None = None, statement: str | None = None) -> Name:
    """How to write a dotted name here, adding an import where none serves.

    Args:
        dotted: ``torch.no_grad``, ``torch.nn.functional.linear``.
        at: where it will be used.
        statement: the import to add, ``import torch`` by default. With ``from X import Y`` the bare ``Y`` is returned.
    """
    parent, _, last = dotted.rpartition(".")
    direct = statement is not None and statement.startswith("from ")
    text = imported_as(source, dotted, at)
    # A submodule that ``import torch`` does not load: only an import that names it serves.
    if text is not None and (not direct or "." not in text or _loaded(source, parent)):
        return Name(text)
    wanted = statement or f"import {dotted.split('.')[0]}"
    return Name(last if direct else dotted, tuple(add_import(source, wanted)))


def _loaded(source: Source, module: str) -> bool:
    plain = {a.name for n in each(source.tree, ast.Import) for a in n.names}
    return module in plain | {f"{n.module}.{a.name}" for n in each(source.tree, ast.ImportFrom) for a in n.names}


@lru_cache(maxsize=64)
def imported(tree: ast.Module) -> dict[str, str]:
    """What each imported name stands for, in full: ``ckpt`` for ``torch.utils.checkpoint``."""
    found: dict[str, str] = {}
    for node in each(tree, ast.Import, ast.ImportFrom):
        of = f"{'.' * node.level}{node.module or ''}." if isinstance(node, ast.ImportFrom) else ""
        for a in node.names:
            local = a.asname or (a.name if of else a.name.split(".")[0])
            found[local] = of + (a.name if of or a.asname else local)
    return found


@lru_cache(maxsize=64)
def names_bound(tree: ast.Module) -> set[str]:
    """The names that a file itself binds anywhere: functions, classes, arguments, variables."""
    found = {n.name for n in each(tree, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)}
    return found | {n.arg for n in each(tree, ast.arg)} | plain_names(tree, ast.Store)


_USUAL = {"torch": "torch", "np": "numpy", "math": "math", "F": "torch.nn.functional", "nn": "torch.nn"}
_USUAL |= {"functional": "torch.nn.functional", "init": "torch.nn.init"}
_USUAL |= {name: f"torch.{name}" for name in ("special", "linalg")}
"""What a name is taken for that the file does not bind: it may come from elsewhere (``from common import *``)."""


def stands_for(source: Source | ast.Module, node: ast.AST) -> str:
    """What a path stands for by the file's imports, in full (``torch.nn.functional`` for ``F``); empty for another."""
    tree = source if isinstance(source, ast.Module) else source.tree
    first, _, rest = path_of(node).partition(".")
    usual = _USUAL.get(first, "") if first in _USUAL and first not in names_bound(tree) else ""
    whole = imported(tree).get(first, usual)
    return f"{whole}.{rest}".rstrip(".") if whole else ""


def function_of(source: Source | ast.Module, node: ast.AST | None) -> str:
    """What a call calls, in full (``torch.zeros``); empty for what is not imported, and for any other expression."""
    return stands_for(source, node.func) if isinstance(node, ast.Call) else ""


def computes(source: Source | ast.Module, node: ast.AST) -> bool:
    """Whether a path belongs to a library of numbers: PyTorch, NumPy or ``math``."""
    return stands_for(source, node).split(".")[0] in ("torch", "numpy", "math")


def is_torchs(source: Source | ast.Module, node: ast.AST) -> bool:
    """Whether a path is PyTorch's own (``torch``, ``F``, ``th.nn.init``), whatever the file calls it: no tensor."""
    return stands_for(source, node).split(".")[0] == "torch"


def is_module(source: Source, node: ast.expr) -> bool:
    """Whether a path is a module of functions, PyTorch's or another that is imported."""
    whole = stands_for(source, node).split(".")[0]
    plain = {a.asname or a.name.split(".")[0] for n in each(source.tree, ast.Import) for a in n.names}
    return whole in ("torch", "math", "numpy") or (bool(whole) and key(node).split(".")[0] in plain)


def torch_name(source: Source, at: ast.AST | None = None) -> Name:
    """What ``torch`` is called here."""
    return name_for(source, "torch", at)


def add_import(source: Source, statement: str) -> list[Edit]:
    """Insert an import behind the imports at the top of the file, after docstring and ``__future__``."""
    body = source.tree.body
    docstring = [n for n in body[:1] if isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant)]
    imports = takewhile(lambda n: isinstance(n, ast.Import | ast.ImportFrom), body[len(docstring) :])
    head = [*docstring, *imports]
    if head:
        return insert_after(source, head[-1], [statement], once=True)
    if body:
        return insert_before(source, body[0], [statement], once=True)
    return [Edit(source.file, None, Beside((statement,), True), True)]


# Names that stand for a plain list or dictionary, as far as the source tells.


def is_list(source: Source, node: ast.expr) -> bool:
    """Whether all that a name is bound to in its scope are lists written out: a display, a comprehension, ``list(…)``.

    An item of such a list is a value of its own; to assign one writes into no tensor.
    """
    makers = values_bound(source, node)
    return bool(makers) and all(_makes_list(m) for m in makers)


def is_container(source: Source, node: ast.expr) -> bool:
    """Whether all that a name is bound to in its scope are lists or dictionaries written out."""
    makers = values_bound(source, node)
    return bool(makers) and all(_makes_list(m) or _makes_dictionary(m) for m in makers)


def values_bound(source: Source, node: ast.expr) -> list[ast.expr]:
    """The values of all bindings of a name in its scope; none where one of them is no plain assignment."""
    scope = scope_of(source, node)
    if not isinstance(node, ast.Name):
        return []
    if isinstance(scope, Function) and node.id in parameters(scope):
        return []
    stored = [n for n in own_nodes(scope) if is_name(n, node.id) and not is_read(n)]
    makers = [
        value
        for s in own_nodes(scope)
        if isinstance(s, ast.Assign)
        for bound, value in pairs(s)
        if any(bound is n for n in stored)
    ]
    return makers if len(makers) == len(stored) else []


def _makes_list(value: ast.expr) -> bool:
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Mult | ast.Add):
        return _makes_list(value.left) or (isinstance(value.op, ast.Mult) and _makes_list(value.right))
    if isinstance(value, ast.Call):
        return isinstance(value.func, ast.Name) and value.func.id in ("list", "sorted")
    return isinstance(value, ast.List | ast.ListComp)


def _makes_dictionary(value: ast.expr) -> bool:
    if isinstance(value, ast.Call):
        return isinstance(value.func, ast.Name) and value.func.id in ("dict", "defaultdict", "OrderedDict")
    return isinstance(value, ast.Dict | ast.DictComp)


# What the variable of a loop runs over.


def iterated(target: ast.expr, iterable: ast.expr, name: str) -> ast.expr | None:
    """What a loop variable runs over: its own argument of ``zip`` or ``enumerate``, else the whole iterable."""
    return next((over for one, over in run_over(target, iterable) if is_name(one, name)), None)


def run_over(target: ast.expr, iterable: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    """What the parts of a loop's target run over, each with its own argument of ``zip`` or ``enumerate``."""
    several = target.elts if isinstance(target, ast.Tuple | ast.List) else []
    given = iterable.args if isinstance(iterable, ast.Call) else []
    if several and given and isinstance(iterable, ast.Call):
        plain = not any(isinstance(e, ast.Starred) for e in (*several, *given))
        if plain and is_name(iterable.func, "zip") and len(given) == len(several):
            for one, its in zip(several, given, strict=True):
                yield from run_over(one, its)
            return
        if plain and is_name(iterable.func, "enumerate") and len(several) == 2:
            yield from run_over(several[1], given[0])
            return
    yield target, iterable
