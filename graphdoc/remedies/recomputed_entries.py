"""Entries of a store that something learns through: computed again from what is stored beside them."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace

from graphdoc.evidence import Frame, OlderEdge, SourceTexts
from graphdoc.finding import Remedy
from graphdoc.program.bindings import function_around, tree
from graphdoc.program.container_entries import (
    Entry,
    entry_of,
    handed_over,
    putting,
)
from graphdoc.program.observed import Program
from graphdoc.program.reuse import Reuse
from graphdoc.program.spans import innermost_user, place, where
from graphdoc.program.stored_values import user_frames
from graphdoc.remedies.recipes import Recipe, appended_by, computed_from, filled_beside, recipe_of
from graphdoc.source.scopes import parameters
from graphdoc.story.older_graph import distinct_carries


def entries_computed_again(program: Program, reuse: Reuse) -> list[Remedy]:
    """Compute what is read from the store from its neighbours in the store, with the weights of now.

    Told where every value of the older graph that comes into the loss was put into one store by one statement, and the
    expression for it leads to nothing but other things that the same function puts into the store beside it.
    """
    recipes: list[tuple[Recipe, Frame]] = []
    containers: dict[str, None] = {}
    reads: list[Frame] = []
    for c in distinct_carries(program.nodes, reuse.carries):
        found = _recipe(program, c)
        consumer = program.node(c.consumer)
        frame = innermost_user(consumer.stack) if consumer is not None else None
        if found is None or frame is None:
            return []
        recipes += [found] if found not in recipes else []
        containers |= dict.fromkeys(e.container for h in c.tensor.holders if (e := entry_of(h)) is not None)
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
    note = f"`{recipe.value}` is computed with the weights of now: each update has a graph of its own and trains them."
    return [Remedy("recompute_entries", title, "unsafe", note, args)]


def _recipe(program: Program, carry: OlderEdge) -> tuple[Recipe, Frame] | None:
    producer = program.node(carry.producer)
    if producer is None:
        return None
    for holder in carry.tensor.holders:
        entry = entry_of(holder)
        if entry is None or entry.rest:
            continue
        puts = putting(program.sources, user_frames(producer.stack), entry)
        if len(puts) == 1:
            frame, statement = puts[0]
            recipe = recipe_of(program.sources, frame, statement, entry)
            return (recipe, frame) if recipe is not None else None
        recipe_and_place = _handed_over(program.sources, user_frames(producer.stack), entry)
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
    given_to = _given_to(call, method)
    value = given_to.get(ast.unparse(mine[1]))
    root = tree(sources, frame.file)
    scope = (function_around(root, frame.line) or root) if root is not None else None
    if value is None or scope is None:
        return None
    kept = [
        replace(k, text=ast.unparse(given_to[k.text]), line=frame.line)
        for k in filled_beside(method, put)
        if k.text in given_to
    ]
    recipe = computed_from(scope, statement, value, kept, entry, frame)
    return (recipe, frame) if recipe is not None else None


def _given_to(call: ast.Call, method: ast.FunctionDef) -> dict[str, ast.expr]:
    """What a call of a method gives to each of its arguments."""
    names = parameters(method)[1:]
    if any(isinstance(a, ast.Starred) for a in call.args):
        return {}
    return {**dict(zip(names, call.args, strict=False)), **{k.arg: k.value for k in call.keywords if k.arg}}
