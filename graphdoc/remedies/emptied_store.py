"""A store that nobody empties: let go of behind the step, or its entries computed again from what is beside them."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from graphdoc.evidence import Frame, SourceTexts
from graphdoc.finding import Remedy, edit_at, together
from graphdoc.program.bindings import bound_late, names_it, scope_at, tree
from graphdoc.program.carried_names import Carried
from graphdoc.program.container_entries import (
    Entry,
    entry_of,
    given,
    handed_over,
    parts_beside,
    putting,
    statements,
    user_frames,
)
from graphdoc.program.expression_values import behind_the_step
from graphdoc.program.observed import Program
from graphdoc.program.reuse import Reuse
from graphdoc.program.spans import place, user_line, where
from graphdoc.source.effects import DRAWS, TAKES
from graphdoc.source.module import each, is_method_call, is_within, walked
from graphdoc.source.paths import (
    bare_call,
    blocks_of,
    is_name,
    is_read,
    last_word,
    pairs,
    path_of,
    plain_names,
    targets_of,
    without_subscripts,
)
from graphdoc.source.scopes import given_by, parameters

_TAKING = frozenset({"clear", "pop", "popleft", "remove", "popitem"})
"""Methods that take something out of a list."""


def emptied_behind_step(program: Program, reuse: Reuse) -> list[Remedy]:
    """Empty the lists that the update reads behind its step, where the program only ever appends to them.

    Told where the failing loss takes in every old entry that is still held, and entries made since beside them: what is
    drawn from a memory, or used for several updates, is not to be thrown away.
    """
    for frame, paths in _grown(program, reuse):
        anchor, step = behind_the_step(program.sources, program.evidence.events, frame)
        return [] if step is frame else _emptied(paths, anchor, step)  # without a step what is called is no update
    return []


def only_grows(program: Program, reuse: Reuse) -> bool:
    """Whether the failing loss takes in all of a list that the program only ever appends to."""
    return any(True for _ in _grown(program, reuse))


def _grown(program: Program, reuse: Reuse) -> Iterator[tuple[Frame, list[str]]]:
    """The functions of the failing call that read such lists, and their paths there."""
    if not any(c.remade or c.recurrent for c in reuse.carries):
        return
    names = [{e.container for h in c.holders if (e := entry_of(h)) is not None} for c in reuse.carries]
    common = set.intersection(*names) if names else set()
    taken = {h.path for c in reuse.carries for h in c.holders}
    held = [h for t in program.evidence.held_tensors for h in t.holders]
    if any(h.path not in taken for h in held if (e := entry_of(h)) is not None and e.container in common):
        return
    for frame in user_frames(reuse.failing.stack if reuse.failing else []):
        scope = scope_at(program.sources, frame)
        read = next((p for p in _lists_read(scope) if p.rpartition(".")[2] in common), "")
        if not read or not _only_grows(program.sources, read):
            continue
        owner = read.rpartition(".")[0]
        others = (p for p in _lists_read(scope) if p.rpartition(".")[0] == owner and p != read)
        yield frame, [read, *dict.fromkeys(p for p in others if _only_grows(program.sources, p))]


def _emptied(paths: list[str], anchor: Frame, step: Frame) -> list[Remedy]:
    title = f"empty {' and '.join(f'`{p}`' for p in paths)} once each update, after the optimizer step at {where(step)}"
    edits = [edit_at("add_statement", anchor, statement=f"{p}.clear()") for p in paths]
    return together(edits, title, "unsafe", "Each update then uses only what was stored since the update before.")


def _lists_read(scope: ast.AST) -> Iterator[str]:
    """The names and dotted names that a function reads, other than to call a method of theirs."""
    called = {id(n.value) for n in each(scope, ast.Attribute)}
    for n in walked(scope):
        if isinstance(n, ast.Name | ast.Attribute) and is_read(n) and id(n) not in called:
            path = path_of(n)
            if path:
                yield path


def _only_grows(sources: SourceTexts, path: str) -> bool:
    """Whether the program appends to a list of this last name, and never takes from it, nor binds the name anew but at
    the start: in ``__init__``, or at the top of a file or function outside of its loops."""
    owner, _, name = path.rpartition(".")
    grows = False
    for file in sources:
        root = tree(sources, file)
        for n in walked(root):
            if isinstance(n, ast.Attribute) and names_it(n.value, name, owner):
                grows = grows or n.attr == "append"
                if n.attr in _TAKING:
                    return False
            if isinstance(n, ast.Delete) and any(names_it(without_subscripts(t), name, owner) for t in n.targets):
                return False
        if any(names_it(without_subscripts(t), name, owner) for t in bound_late(root, names=False)):
            return False
    return grows


# How an entry of a store was computed, as one expression of what is stored beside it.

LONGEST = 160
"""Characters of an expression that still reads well in place of a name."""
_DEEPEST = 8
"""Assignments that one expression is followed through."""
_DRAWING = DRAWS | TAKES | {"item"}
"""Methods and functions whose second call gives something else than the first, or takes something away."""


@dataclass(frozen=True)
class Recipe:
    """How an entry is computed: an expression over what is stored beside it, and where each of those is stored.

    ``siblings`` are pairs of the name in the expression and of the list, or the field of the same entry.
    """

    place: tuple[str, int]
    field: tuple[str, str] | None
    value: str
    siblings: tuple[tuple[str, str], ...]


def recipe_of(sources: SourceTexts, frame: Frame, statement: ast.stmt, entry: Entry) -> Recipe | None:
    """How the entry that a statement stores is computed from what is stored beside it; None where it is not."""
    scope = scope_at(sources, frame)
    value = given(sources, statement, entry)
    if value is None:
        return None
    beside = parts_beside(sources, statement, entry).items()
    parts = [_Kept(ast.unparse(v), at, statement.lineno) for at, v in beside]
    kept = parts if entry.field is not None else filled_beside(scope, statement)
    return computed_from(scope, statement, value, kept, entry, frame)


def computed_from(
    scope: ast.AST, statement: ast.stmt, value: ast.expr, kept: Sequence[_Kept], entry: Entry, frame: Frame
) -> Recipe | None:
    inline = _Inline(scope, statement, kept)
    try:
        made = inline.visit(copy.deepcopy(value))
    except _Unknown:
        return None
    made = _together(made)
    text = ast.unparse(made)
    calls = [n for n in ast.walk(made) if isinstance(n, ast.Call)]  # a tree that was changed: `each` knows the old one
    # A network that is called twice for two of its results has no short expression.
    if not inline.used or not calls or len({ast.unparse(c) for c in calls}) < len(calls) or len(text) > LONGEST:
        return None
    siblings = tuple((name, at) for name, at in inline.used.items())
    told = (entry.field.kind, entry.field.key) if entry.field is not None else None
    return Recipe((frame.file, frame.line), told, text, siblings)


class _Unknown(Exception):
    """A part of the expression cannot be had where the store is read."""


@dataclass
class _Kept:
    """What is stored beside an entry: its expression, the list or field that holds it, and the line that stores it."""

    text: str
    at: str
    line: int


@dataclass
class _Inline(ast.NodeTransformer):
    """Puts in place of each local name what it was computed from, as far as to what is kept."""

    scope: ast.AST
    statement: ast.stmt
    kept: Sequence[_Kept]
    line: int = 0
    used: dict[str, str] = field(default_factory=dict)
    depth: int = 0

    def visit(self, node: ast.AST) -> ast.AST:
        line = self.line or self.statement.lineno
        text = ast.unparse(node) if isinstance(node, ast.expr) else ""
        found = next((k for k in self.kept if k.text == text and self._unchanged(node, k.line, line)), None)
        if found is not None:
            name = found.text if found.text.isidentifier() else f"{found.at.rpartition('.')[2].strip(chr(39))}_"
            if not name.isidentifier() or self.used.get(name, found.at) != found.at:
                raise _Unknown
            self.used[name] = found.at
            return ast.copy_location(ast.Name(name, ast.Load()), node)
        if isinstance(node, ast.NamedExpr | ast.Await | ast.Yield | ast.YieldFrom | ast.Lambda | ast.comprehension):
            raise _Unknown
        if isinstance(node, ast.Call) and last_word(node.func) in _DRAWING:
            raise _Unknown
        if isinstance(node, ast.Name) and is_read(node):
            return self._name(node, line)
        return super().generic_visit(node)

    def _name(self, node: ast.Name, line: int) -> ast.AST:
        bound = list(_bound_at(self.scope, node.id))
        arguments = parameters(self.scope) if isinstance(self.scope, ast.FunctionDef | ast.AsyncFunctionDef) else []
        if node.id in arguments:
            if not bound and arguments[0] == node.id == "self":
                return node
            raise _Unknown
        above = [b for b in bound if b.lineno < line]
        if not any(self._renewed(b) for b in bound):
            return node  # the same for every entry; whether it can be read elsewhere is seen there
        value = _value_of(above[-1], node.id) if above and self._renewed(above[-1]) else None
        if value is None or self.depth > _DEEPEST or not self._on_the_way(above[-1]):
            raise _Unknown
        before, self.line = self.line, above[-1].lineno
        self.depth += 1
        made: ast.AST = self.visit(copy.deepcopy(value))
        self.line, self.depth = before, self.depth - 1
        return made

    def _renewed(self, bound: ast.stmt) -> bool:
        """Whether a statement runs anew for each entry: in the innermost loop around the store, if there is one."""
        loops = [n for n in each(self.scope, ast.For, ast.While) if _within(n, self.statement)]
        inner = max(loops, key=lambda n: n.lineno, default=None)
        return _within(inner, bound) if inner is not None else not isinstance(self.scope, ast.Module)

    def _on_the_way(self, bound: ast.stmt) -> bool:
        """Whether a statement always runs before the store does: in its block, or in one around it."""
        return any(bound in block for block in _blocks_around(self.scope, self.statement))

    def _unchanged(self, node: ast.AST, kept: int, used: int) -> bool:
        """Whether no name of an expression is set again between the line that keeps it and the one that uses it."""
        names = plain_names(node)
        low, high = sorted((kept, used))
        return not any(low <= b.lineno < high for name in names for b in _bound_at(self.scope, name))


def _within(outer: ast.AST, inner: ast.stmt) -> bool:
    return is_within(inner, outer) and inner is not outer


def _bound_at(scope: ast.AST, name: str) -> Iterator[ast.stmt]:
    """The statements of a scope that bind a name, or write to what it names, in order."""
    for s in statements(scope):
        if any(is_name(n, name) for t in targets_of(s) for n in walked(t)):
            yield s


def _value_of(statement: ast.stmt, name: str) -> ast.expr | None:
    """What a plain assignment binds to a name; the element of a call's result where it is taken apart."""
    for target, value in pairs(statement):
        if is_name(target, name):
            return value
        if isinstance(target, ast.Tuple) and not any(isinstance(e, ast.Starred) for e in target.elts):
            for i, e in enumerate(target.elts):
                if is_name(e, name):
                    return ast.Subscript(copy.deepcopy(value), ast.Constant(i), ast.Load())
    return None


def _together(node: ast.AST) -> ast.AST:
    """``f(net(x)[0], net(x)[1])`` as ``f(*net(x))``."""
    for call in [n for n in ast.walk(node) if isinstance(n, ast.Call)]:
        parts = [a for a in call.args if isinstance(a, ast.Subscript) and isinstance(a.slice, ast.Constant)]
        if len(parts) < 2 or len(parts) != len(call.args):
            continue
        same = len({ast.unparse(p.value) for p in parts}) == 1 and isinstance(parts[0].value, ast.Call)
        if same and [p.slice.value for p in parts if isinstance(p.slice, ast.Constant)] == list(range(len(parts))):
            call.args = [ast.Starred(parts[0].value, ast.Load())]
    return node


def _blocks_around(scope: ast.AST, statement: ast.stmt) -> list[list[ast.stmt]]:
    """The block that a statement stands in, and those around it, as far as to its scope."""
    blocks = [block for node in walked(scope) for block in blocks_of(node)]
    return [block for block in reversed(blocks) if any(is_within(statement, s) for s in block)]


def filled_beside(scope: ast.AST, statement: ast.stmt) -> list[_Kept]:
    """What the statements beside this one append to lists of the same owner: one entry each time."""
    mine = appended_by(statement)
    blocks = _blocks_around(scope, statement)
    if mine is None or not blocks:
        return []
    found = [(s, a) for s in blocks[0] if s is not statement and (a := appended_by(s)) is not None]
    return [
        _Kept(ast.unparse(value), path, s.lineno)
        for s, (path, value) in found
        if path.rpartition(".")[0] == mine[0].rpartition(".")[0] and path != mine[0]
    ]


def appended_by(statement: ast.stmt) -> tuple[str, ast.expr] | None:
    """The list, by its dotted name, and what is appended to it."""
    call = bare_call(statement)
    if not is_method_call(call, "append"):
        return None
    path = path_of(call.func.value)
    return (path, call.args[0]) if path and len(call.args) == 1 and not call.keywords else None


# Entries of a store that something learns through: computed again from what is stored beside them.


def entries_computed_again(reuse: Reuse) -> list[Remedy]:
    """Compute what is read from the store from its neighbours in the store, with the weights of now.

    Told where every value of the older graph that comes into the loss was put into one store by one statement, and the
    expression for it leads to nothing but other things that the same function puts into the store beside it.
    """
    recipes: list[tuple[Recipe, Frame]] = []
    containers: dict[str, None] = {}
    reads: list[Frame] = []
    for c in reuse.values:
        found, frame = _recipe(c), user_line(c.taken)
        if found is None or frame is None:
            return []
        recipes += [found] if found not in recipes else []
        containers |= dict.fromkeys(e.container for h in c.holders if (e := entry_of(h)) is not None)
        reads += [frame] if frame not in reads else []
    if len(recipes) != 1 or not reads:
        return []
    ((recipe, stored),) = recipes
    args = {
        "place": place(stored),
        "reads": [place(f) for f in reads],
        "containers": list(containers),
        "field": list(recipe.field) if recipe.field else None,
        "value": recipe.value,
        "siblings": [list(s) for s in recipe.siblings],
    }
    beside = " and ".join(f"`{name}`" for name, _ in recipe.siblings)
    title = f"compute it again in each update, from {beside} stored beside it at {where(stored)}"
    note = f"`{recipe.value}` is computed with the current weights: each update has a graph of its own and trains them."
    return [Remedy("recompute_entries", title, "unsafe", note, args)]


def _recipe(carry: Carried) -> tuple[Recipe, Frame] | None:
    sources = carry.run.sources
    for holder in carry.holders:
        entry = entry_of(holder)
        if entry is None or entry.rest:
            continue
        puts = putting(sources, carry.making, entry)
        if len(puts) == 1:
            frame, statement = puts[0]
            recipe = recipe_of(sources, frame, statement, entry)
            return (recipe, frame) if recipe is not None else None
        recipe_and_place = _handed_over(sources, carry.making, entry)
        if recipe_and_place is not None:
            return recipe_and_place
    return None


def _handed_over(sources: SourceTexts, frames: Sequence[Frame], entry: Entry) -> tuple[Recipe, Frame] | None:
    """Of an entry that a method of the store appends for its caller: ``memory.store(x, action, log_prob)``."""
    found = handed_over(sources, frames, entry) if entry.field is None else None
    mine = appended_by(found[-1]) if found is not None else None
    if found is None or mine is None:
        return None
    frame, statement, call, method, put = found
    given = given_by(method, call)
    value = given.get(ast.unparse(mine[1]))
    scope = scope_at(sources, frame)
    if value is None:
        return None
    beside = [k for k in filled_beside(method, put) if k.text in given]
    kept = [replace(k, text=ast.unparse(given[k.text]), line=frame.line) for k in beside]
    recipe = computed_from(scope, statement, value, kept, entry, frame)
    return (recipe, frame) if recipe is not None else None
