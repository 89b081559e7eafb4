"""Names: what a function binds, what the file imports, what torch is called here, which names are displays."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from graphdoc.source.edits import insert_after, insert_before
from graphdoc.source.layout import ends_line
from graphdoc.source.module import Function, Source, each
from graphdoc.source.paths import pairs, plain_names, targets_of
from graphdoc.source.places import Beside, Edit

Scope = ast.FunctionDef | ast.AsyncFunctionDef | ast.Module


def scope_of(source: Source, node: ast.AST) -> Scope | None:
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


def is_rebindable(source: Source, name: str, at: ast.AST) -> bool:
    """Whether ``name = …`` at this node binds the variable that reading ``name`` here means.

    False for a global or an enclosing function's variable that the function does not declare.
    """
    scope = scope_of(source, at)
    if scope is None or isinstance(scope, ast.Module):
        return True
    declared = {n for node in own_nodes(scope) if isinstance(node, ast.Global | ast.Nonlocal) for n in node.names}
    return name in bound_names(scope) | declared


def is_readable(source: Source, name: str, at: ast.AST) -> bool:
    """Whether a name can be read at a node: bound in its function, in one around it, or at the top of the file."""
    scope = scope_of(source, at)
    while scope is not None:
        if name in bound_names(scope):
            return True
        scope = None if isinstance(scope, ast.Module) else scope_of(source, scope)
    return False


def fresh_name(source: Source, *wanted: str) -> str:
    """The first of the wanted names that the file does not use; the last with a number where all are taken."""
    used = plain_names(source.tree) if source.tree else set()
    used |= {n.arg for n in ast.walk(source.tree) if isinstance(n, ast.arg)} if source.tree else set()
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
    if source.tree is None:
        return None
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
    direct = statement is not None and statement.startswith("from ")
    if not direct or dotted.count(".") == 0:
        text = imported_as(source, dotted, at)
        if text is not None:
            return Name(text)
    else:
        # A submodule that ``import torch`` does not load: only an import that names it serves.
        text = imported_as(source, dotted, at)
        parent = dotted.rpartition(".")[0]
        if text is not None and (_loaded(source, parent) or "." not in text):
            return Name(text)
    wanted = statement or f"import {dotted.split('.')[0]}"
    return Name(dotted.rpartition(".")[2] if direct else dotted, tuple(add_import(source, wanted)))


def _loaded(source: Source, module: str) -> bool:
    for node in ast.walk(source.tree) if source.tree else ():
        if isinstance(node, ast.Import) and any(a.name == module for a in node.names):
            return True
        if isinstance(node, ast.ImportFrom) and any(f"{node.module}.{a.name}" == module for a in node.names):
            return True
    return False


def module_names(source: Source) -> set[str]:
    """The names that a file's imports bind to modules, and to what PyTorch's modules have."""
    nodes = each(source.tree, ast.Import, ast.ImportFrom)
    taken = (n for n in nodes if isinstance(n, ast.Import) or (n.module or "").split(".")[0] == "torch")
    return {alias.asname or alias.name.split(".")[0] for n in taken for alias in n.names}


def torch_name(source: Source, at: ast.AST | None = None) -> Name:
    """What ``torch`` is called here."""
    return name_for(source, "torch", at)


def add_import(source: Source, statement: str) -> list[Edit]:
    """Insert an import behind the imports at the top of the file, after docstring and ``__future__``."""
    body = source.tree.body if source.tree else []
    anchor: ast.stmt | None = None
    for index, node in enumerate(body):
        docstring = index == 0 and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if docstring or isinstance(node, ast.Import | ast.ImportFrom):
            anchor = node
        else:
            break
    if anchor is not None:
        while not ends_line(source, anchor):
            block = source.node_block(anchor)
            if (
                block is None
                or block[1] + 1 >= len(block[0])
                or not isinstance(block[0][block[1] + 1], ast.Import | ast.ImportFrom)
            ):
                break
            anchor = block[0][block[1] + 1]
        return insert_after(source, anchor, [statement], once=True)
    if body:
        return insert_before(source, body[0], [statement], once=True)
    return [Edit(source.file, None, Beside((statement,), True), True)]


# Names that stand for a plain list or dictionary, as far as the source tells.


def is_list(source: Source, node: ast.expr) -> bool:
    """Whether all that a name is bound to in its scope are lists written out: a display, a comprehension, ``list(…)``.

    An item of such a list is a value of its own; to assign one writes into no tensor.
    """
    makers = _makers(source, node)
    return bool(makers) and all(_makes_list(m) for m in makers)


def is_container(source: Source, node: ast.expr) -> bool:
    """Whether all that a name is bound to in its scope are lists or dictionaries written out."""
    makers = _makers(source, node)
    return bool(makers) and all(_makes_list(m) or _makes_dictionary(m) for m in makers)


def _makers(source: Source, node: ast.expr) -> list[ast.expr]:
    """The values of all bindings of a name in its scope; none where one of them is no plain assignment."""
    scope = scope_of(source, node)
    if not isinstance(node, ast.Name) or scope is None:
        return []
    if isinstance(scope, Function) and node.id in parameters(scope):
        return []
    stored = [n for n in own_nodes(scope) if isinstance(n, ast.Name) and n.id == node.id and _is_bound(n)]
    makers = [
        value
        for s in own_nodes(scope)
        if isinstance(s, ast.Assign)
        for bound, value in pairs(s)
        if any(bound is n for n in stored)
    ]
    return makers if len(makers) == len(stored) else []


def _is_bound(name: ast.Name) -> bool:
    return isinstance(name.ctx, ast.Store | ast.Del)


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
    if isinstance(target, ast.Name):
        return iterable if target.id == name else None
    if not isinstance(target, ast.Tuple | ast.List) or any(isinstance(e, ast.Starred) for e in target.elts):
        return None
    if not isinstance(iterable, ast.Call) or not isinstance(iterable.func, ast.Name):
        return None
    given = iterable.args
    if any(isinstance(a, ast.Starred) for a in given):
        return None
    if iterable.func.id == "enumerate" and len(target.elts) == 2 and given:
        return iterated(target.elts[1], given[0], name)
    if iterable.func.id != "zip" or len(given) != len(target.elts):
        return None
    return next((f for t, g in zip(target.elts, given, strict=True) if (f := iterated(t, g, name)) is not None), None)
