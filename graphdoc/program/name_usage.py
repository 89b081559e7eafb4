"""How the source of a run uses what it names: what is never read, what is rewritten."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import takewhile
from typing import NamedTuple

from graphdoc.evidence import Frame, SourceTexts
from graphdoc.program.bindings import (
    class_around,
    everywhere,
    frame_of,
    methods_named,
    source_at,
    source_of,
    statement_at,
    text_of,
    tree,
)
from graphdoc.program.parameter_paths import within
from graphdoc.program.spans import shared_levels
from graphdoc.program.written_out import in_line
from graphdoc.source.expressions import TAKEN_OUT
from graphdoc.source.module import Source, each, given_to, has, is_method_call, is_within, values_of, walked
from graphdoc.source.paths import (
    elements,
    is_read,
    last_word,
    only,
    path_of,
    plain_names,
    root_of,
    sole_target,
    targets_of,
)
from graphdoc.source.scopes import bound_names, is_read_later, reads


def idle_arguments(sources: SourceTexts) -> list[tuple[str, str, Frame]]:
    """Functions that take an argument and never read it: (function, argument, place of the body or the definition).

    Left out: names that begin with an underscore, special methods, methods that only raise or pass, and functions with
    a signature that PyTorch prescribes (hooks, ``forward`` and ``backward`` of a Function).
    """
    found: list[tuple[str, str, Frame]] = []
    for file, node in everywhere(sources, ast.FunctionDef, ast.Lambda):
        name = node.name if isinstance(node, ast.FunctionDef) else "lambda"
        body: list[ast.AST] = list(node.body) if isinstance(node, ast.FunctionDef) else [node.body]
        taken = [x.arg for x in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
        prescribed = "hook" in name or taken[:1] == ["ctx"] or (name.startswith("__") and name.endswith("__"))
        if prescribed or all(isinstance(b, ast.Pass | ast.Raise | ast.Expr) for b in body):
            continue
        read = {n.id for b in body for n in each(b, ast.Name)}
        idle = [t for t in taken if t not in read and t not in ("self", "cls") and not t.startswith("_")]
        if idle:
            last = body[-1] if len(body) == 1 or isinstance(body[-1], ast.Return) else node
            found.append((name, idle[0], frame_of(sources, file, last, name)))
    return found


def made_again(sources: SourceTexts, place: Frame, argument: str) -> str:
    """The expression at ``place`` that a name like the unread argument is assigned elsewhere in the file; else empty.

    A function that takes ``embed`` and computes ``self.embeddings(ids)``, with ``embed = self.embeddings(ids)`` around.
    """
    root = tree(sources, place.file)
    values = {text_of(value) for value in values_of(root, argument)}
    inside = [n for n in each(root, ast.Call) if place.line <= n.lineno and (n.end_lineno or 0) <= place.end_line]
    return next((text_of(n) for n in inside if text_of(n) in values), "")


def unread_result(sources: SourceTexts, made: list[Frame], backward: list[Frame]) -> tuple[Frame, str] | None:
    """Where a result, or what was computed from it, is bound to a name that nothing reads, by the calls that led to it
    or as one of several that a function returns; and the name.

    What calls backward as well has a result of the whole training, which may well go unread.
    """
    users = [f for f in made if f.user]
    ours = users[shared_levels(made, backward) :]
    found = next(((f, name) for f in reversed(ours) if (name := unread_name(sources, f))), None)
    if found is not None:
        return found
    kept = kept_as_number(sources, made)
    node = statement_at(sources, kept.frame) if kept is not None else None
    if kept is None or node is None or kept.added or kept.frame is users[-1] or not kept.name.isidentifier():
        return None
    return kept[:2] if is_unread(source_at(sources, kept.frame), node, kept.name) else None


def bound_anew(sources: SourceTexts, made: list[Frame], backward: list[Frame]) -> tuple[Frame, str] | None:
    """Where each round of a loop binds a result to a name that is read behind the loop alone: only the last round's is
    used; and the name."""
    for frame in reversed([f for f in made if f.user][shared_levels(made, backward) :]):
        source, node = source_at(sources, frame), statement_at(sources, frame)
        target = sole_target(node)
        loop = source.node_loop(node) if node is not None and isinstance(target, ast.Name) else None
        if not isinstance(loop, ast.For) or node not in loop.body or has(loop, ast.Break, ast.Return):
            continue
        name = last_word(target)
        if not reads(loop, name) and is_read_later(source, node, name):
            return frame, name
    return None


def unread_name(sources: SourceTexts, frame: Frame) -> str:
    """The one name that the statement at a place binds, where nothing ever reads what it is bound to there; else empty.
    A name that begins with an underscore says itself that nobody does; an attribute or an entry has to be bound again
    in the same block."""
    source, node = source_at(sources, frame), statement_at(sources, frame)
    match node:
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call()):
            return name if is_unread(source, node, name) else ""
        case ast.Assign(targets=[target], value=ast.Call()):
            return path_of(target) if _is_bound_over(source, node, target) else ""
    return ""


def _is_bound_over(source: Source, node: ast.stmt, target: ast.expr) -> bool:
    """Whether a later statement of the block binds this attribute or entry again, before anything reads it or may."""
    path, root = path_of(target), text_of(root_of(target))
    methods = {n.name for n in each(source.tree, ast.FunctionDef)}
    block, index = source.node_block(node)
    for statement in block[index + 1 :] if path else ():
        for name in (n for n in each(statement, ast.Name) if n.id == root):
            parts = list(takewhile(path_of, source.node_ancestors(name)))
            if not parts or last_word(parts[0]) in methods or any(is_read(p) and path_of(p) == path for p in parts):
                return False
        if path in map(path_of, targets_of(statement)):
            return True
    return False


def is_unread(source: Source, node: ast.stmt, name: str) -> bool:
    """Whether nothing ever reads what a statement binds to a local name."""
    root = source.node_function(node) or source.tree
    by_name = any(reads(root, word) for word in ("locals", "vars", "globals")) or name in plain_names(root, ast.Del)
    outer = any(name in n.names for n in each(root, ast.Global, ast.Nonlocal))
    return not (name.startswith("_") or by_name or outer or is_read_later(source, node, name))


_NUMBERS = TAKEN_OUT | {"cpu"}
_READERS = {"float", "print", "str", "format", "round"}


class Kept(NamedTuple):
    """``frame`` binds a result, or what a function returns of it, to ``name``, which is ``read`` as a number alone; or,
    where it is ``added``, a statement that has not run adds it to something."""

    frame: Frame
    name: str
    read: bool
    added: bool = False


def kept_as_number(sources: SourceTexts, made: list[Frame]) -> Kept | None:
    """What the source does with a result; None where it may be read in another way, where its number decides on
    something, or the name is not known."""
    part, read, name, waits = 0, False, "", False
    for frame in (f for f in reversed(made) if f.user):
        source, node = source_at(sources, frame), statement_at(sources, frame)
        up: ast.AST | None = node if isinstance(node, ast.Return) else None
        if up is None:
            target: ast.expr | None = node.target if isinstance(node, ast.AugAssign) else None
            if isinstance(node, ast.Assign) and len(node.targets) == 1:
                target = node.targets[0]
                part = next((i for i, p in enumerate(elements(node.value)) if _lies_in(frame, p)), part)
                target = target.elts[part] if isinstance(target, ast.Tuple) and part < len(target.elts) else target
            if node is None or target is None or not path_of(target):
                return None
            name, scope = text_of(target), source.node_function(node) if isinstance(target, ast.Name) else None
            every = [n for n in each(scope or source.tree, type(target)) if text_of(n) == name and is_read(n)]
            later = [n for n in every if n.lineno > (node.end_lineno or node.lineno) or _is_above(source, node, n)]
            whole = [n for n in later if not _is_number(source.tree, source.parents[n])]
            read |= len(later) > len(whole)
            others = [*_read_otherwise(sources, source, node, target)]
            if not (whole or others):
                return Kept(frame, name, read) if not _decides(scope or source.tree, later) else None
            waits = any(_waits(source, node, n) for n in whole) or any(
                isinstance(n, _COMBINING | ast.Subscript) for n in others
            )
            up = whole[0] if len(whole) == 1 and not others else None
        found = [up, *source.node_ancestors(up)][:3] if up is not None else []
        end = next((n for n in found if isinstance(n, ast.Return)), None)
        if end is None or any(not isinstance(n, ast.Tuple | ast.Return) for n in found[1 : found.index(end)]):
            return Kept(frame, name, read, True) if waits else None
        parts = end.value.elts if isinstance(end.value, ast.Tuple) else [end.value]
        part = next((i for i, p in enumerate(parts) if p is up or (p is not None and _lies_in(frame, p))), 0)
    return None


_COMBINING = ast.BinOp | ast.AugAssign | ast.IfExp


def _read_otherwise(sources: SourceTexts, source: Source, node: ast.stmt, target: ast.expr) -> Iterator[ast.AST]:
    """Who may read an attribute, on what has another name and not as a number; or an entry, by a key that is not
    written out or with its whole container."""
    match target:
        case ast.Attribute(attr=name):
            alike = ((f, n) for f, n in everywhere(sources, ast.Attribute) if n.attr == name and is_read(n))
            others = ((source_of(sources, f), n) for f, n in alike if text_of(n) != text_of(target))
            yield from (o.parents[n] for o, n in others if not _is_number(o.tree, o.parents[n]))
        case ast.Subscript(value=kept):
            scope = (source.node_function(node) if isinstance(kept, ast.Name) else None) or source.tree
            every = (source.parents[n] for n in each(scope, type(kept)) if text_of(n) == text_of(kept) and is_read(n))
            yield from (n for n in every if not (isinstance(n, ast.Subscript) and isinstance(n.slice, ast.Constant)))


def _waits(source: Source, node: ast.stmt, read: ast.expr) -> bool:
    """Whether what reads a result like this would have made another one of it: it has not run."""
    above = source.parents[read]
    chosen = (n for n in source.node_ancestors(above) if isinstance(n, ast.If | ast.match_case))
    return isinstance(above, _COMBINING) or (
        isinstance(above, ast.Assign) and any(not is_within(node, n) for n in chosen)
    )


def _is_above(source: Source, node: ast.stmt, read: ast.expr) -> bool:
    """Whether a name is read in another function than that which binds it, and is that one's there too."""
    around = source.node_function(read)
    if around is None or around is source.node_function(node) or not isinstance(read, ast.Name):
        return False
    return read.id not in bound_names(around)


def _decides(scope: ast.AST, numbers: list[ast.expr]) -> bool:
    """Whether the number of one of these is compared, or given to a scheduler: a score, by which a model is chosen."""
    given = [n for c in each(scope, ast.Call) if is_method_call(c, "step") for n in given_to(c)]
    inside = {n for one in (*each(scope, ast.Compare), *given) for n in walked(one)}
    bound = [n for n in each(scope, ast.Assign) if not set(numbers).isdisjoint(walked(n.value))]
    names = {t.id for n in bound for t in n.targets if isinstance(t, ast.Name)}
    return any(n in inside for n in numbers) or any(isinstance(n, ast.Name) and n.id in names for n in inside)


def _lies_in(frame: Frame, node: ast.expr) -> bool:
    return (
        (node.lineno, node.col_offset) < (frame.line, frame.column) <= (node.end_lineno or 0, node.end_col_offset or 0)
    )


def _is_number(root: ast.Module, reader: ast.AST) -> bool:
    """Whether who reads a value takes its number alone."""
    if isinstance(reader, ast.Call):
        return path_of(reader.func) in _READERS or is_method_call(in_line(root, reader), *_NUMBERS)
    return isinstance(reader, ast.FormattedValue) or (isinstance(reader, ast.Attribute) and reader.attr in _NUMBERS)


def attributes_through(sources: SourceTexts, attribute: str) -> list[Frame]:
    """Expressions that read something behind an attribute of this name, ``model.module.head.weight``: whole chains.

    A method that is called is left out of the chain, and with it calls of the inner object itself
    (``model.module.state_dict()``).
    """
    found: list[Frame] = []
    for file in sources:
        root = tree(sources, file)
        functions = {n.func for n in each(root, ast.Call)}
        chains = [n for n in each(root, ast.Attribute) if n not in functions]
        inner = {n.value for n in chains}
        outer = (n for n in chains if n not in inner and n.attr != attribute)
        found += [frame_of(sources, file, n) for n in outer if f".{attribute}." in f"{text_of(n)}."]
    return found


def state_written_by(sources: SourceTexts, function: str) -> list[tuple[str, Frame]]:
    """Attributes of ``self`` that a method of this name reads and assigns: (``self.cache``, the assignment)."""
    found: list[tuple[str, Frame]] = []
    for file, node in methods_named(sources, function, "self"):
        read = {text_of(n) for n in each(node, ast.Attribute) if is_read(n) and path_of(n).startswith("self.")}
        for statement in each(node, ast.Assign, ast.AugAssign):
            own = [text_of(t) for t in targets_of(statement) if path_of(t).startswith("self.")]
            if own and (isinstance(statement, ast.AugAssign) or own[0] in read):
                found.append((own[0], frame_of(sources, file, statement, _qualified(sources, file, node))))
    return found


def _qualified(sources: SourceTexts, file: str, method: ast.FunctionDef) -> str:
    """``Body.forward``, as Python calls a method of a class."""
    cls = class_around(tree(sources, file), method.lineno)
    return f"{cls.name}.{method.name}" if cls is not None and method in cls.body else method.name


def bound_over_parameters(
    sources: SourceTexts, names: list[str], every: list[str]
) -> tuple[Frame, ast.Assign, str] | None:
    """An assignment to the variable of a loop over parameters, where nothing reads what is bound to it; and the module
    of these. One that these names, of ``every`` parameter's, belong to, or the only one."""
    found = []
    for file, loop in everywhere(sources, ast.For):
        asked = [n.func.value for n in each(loop.iter, ast.Call) if is_method_call(n, "parameters", "named_parameters")]
        for node in each(loop, ast.Assign) if asked else ():
            target = node.targets[0] if len(node.targets) == 1 else None
            if not isinstance(target, ast.Name) or target.id not in plain_names(loop.target):
                continue
            if is_unread(source_of(sources, file), node, target.id):
                owner = next((o for o in asked if {*names} <= within(text_of(o), every).keys()), None)
                found.append((owner is not None, frame_of(sources, file, node), node, text_of(owner or asked[0])))
    return only([f[1:] for f in found if f[0]][:1] or [f[1:] for f in found])
