"""Letting parameters learn: flags that are required, a freezing that is undone, a generator that was used up."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from graphdoc.evidence import Frame, Optimizer, SourceTexts
from graphdoc.finding import LIST, Remedy, edit_at, remedy_at, together
from graphdoc.program import bindings
from graphdoc.program.gathered_parameters import ITERATORS
from graphdoc.program.learning import Learner, takes_the_flag
from graphdoc.program.observed import Program
from graphdoc.program.optimizer_places import Made, made
from graphdoc.program.spans import where
from graphdoc.source.module import each
from graphdoc.source.paths import is_attribute, last_word, path_of
from graphdoc.source.scopes import own_nodes
from graphdoc.story.missing_graph import named
from graphdoc.story.wording import listing

# Letting what is to learn require gradients, where it is made.


def required(sources: SourceTexts, learners: list[Learner]) -> tuple[Remedy, ...]:
    """The flag where each is made, in its own call where that takes one."""
    edits: list[dict[str, Any]] = []
    for one in learners:
        if one.value is not None and takes_the_flag(sources, one):
            edits.append(edit_at("set_keyword", one.value, name="requires_grad", value="True"))
        elif one.value is not None:
            edits.append(edit_at("require_input_grad", one.value))
        else:
            edits.append(edit_at("require_input_grad", one.frame, name=one.name))
    note = "Autograd then records what is computed from it; no number of the forward pass changes."
    return tuple(together(edits, f"Let {named(learners)} require gradients", "unsafe", note))


# Letting the parameters learn that an optimizer was given: after the freezing, and nothing more than it holds.


def unfreeze(program: Program, freezing: list[Frame], seen: Sequence[Frame] = ()) -> tuple[Remedy, ...]:
    """Make trainable what the one optimizer holds, before the statement that makes it; or, where an ``if`` and its
    ``else`` freeze alike, so that the condition decides nothing, let the ``else`` keep them trainable.

    ``seen``: the user's frames as the flag was taken away."""
    arm = _other_arm(program.sources, freezing)
    if arm is not None:
        title = f"Leave the others trainable, at {where(arm)}"
        note = "Both branches freeze, so the condition decides nothing: only what it names stays frozen then."
        return remedy_at(arm, "rewrite", title, "unsafe", note, pairs=[["{flag} = {_}", "{flag} = True"]])
    frozen = {p.name for p in program.parameters if not p.buffer and not p.requires_grad}
    holders = [o for o in program.optimizers if o.parameters and frozen & {*o.parameters}]
    making = made(program.sources, holders[0]) if len(holders) == 1 else None
    if making is None or not freezing:
        return ()
    before = [any(_is_before(program.sources, g, making) for g in (seen if f in seen else [f])) for f in freezing]
    if not all(before):
        return ()
    return _whole(program.sources, making, holders[0])


def _whole(sources: SourceTexts, making: Made, optimizer: Optimizer) -> tuple[Remedy, ...]:
    call = making.statement.value
    given = bindings.argument(call, 0, "params") if isinstance(call, ast.Call) else None
    function = given.func if isinstance(given, ast.Call) and not given.args and not given.keywords else None
    if not is_attribute(function, "parameters"):
        return ()
    module = bindings.text_of(function.value)
    if heads := _made_anew(sources, making, module):
        statements, at = [f"{h}.requires_grad_(True)" for h in heads], making.frame(sources)
        edits = [edit_at("add_statement", at, statement=s, before=True) for s in statements]
        shown = listing([f"`{h}`" for h in heads])
        note = f"This unfreezes what was replaced, and nothing else that lies in `{module}`."
        title = f"Let {shown} learn, which {'was' if len(heads) == 1 else 'were'} put into `{module}`"
        return tuple(together(edits, title, "unsafe", note))
    title = f"Let `{module}` learn, which {f'`{optimizer.name}`' if optimizer.name else 'the optimizer'} was given"
    note = (
        f"This unfreezes what lies in `{module}`, and nothing else; what the loss does not use gets no gradient by it."
    )
    at, text = making.frame(sources), f"{module}.requires_grad_(True)"
    whole = remedy_at(at, "add_statement", title, "unsafe", note, statement=text, before=True)
    left = f"whether all of `{module}` is to learn, which the program freezes and hands to its optimizer, no run tells"
    return tuple(replace(r, open=left) for r in whole)


def _made_anew(sources: SourceTexts, making: Made, module: str) -> list[str]:
    """The parts that the program has put into a network, before its optimizer, in the place of what it had:
    ``model.fc = nn.Linear(512, 3)``. Who freezes all of it behind that hardly means these."""
    line = making.statement.lineno
    found: dict[str, None] = {}
    for node in each(bindings.tree(sources, making.file), ast.Assign):
        if node.lineno < line and isinstance(node.value, ast.Call):
            builds = last_word(node.value.func)[:1].isupper()
            paths = [bindings.text_of(t) for t in node.targets if isinstance(t, ast.Attribute | ast.Subscript)]
            found.update((p, None) for p in paths if builds and p.startswith((f"{module}.", f"{module}[")))
    return list(found)


def _is_before(sources: SourceTexts, frame: Frame, making: Made) -> bool:
    """Whether the optimizer is surely made behind this statement: in its function, or in one that calls that above."""
    root = bindings.tree(sources, frame.file)
    line = making.statement.lineno
    around = bindings.function_around(root, frame.line)
    own = bindings.tree(sources, making.file)
    outer = bindings.function_around(own, line)
    if frame.file == making.file and (around is outer or (around and outer and around.lineno == outer.lineno)):
        return frame.line < line
    if around is None:
        return False
    calls = (n for n in own_nodes(outer or own) if isinstance(n, ast.Call) and n.lineno < line)
    return any(bindings.text_of(c.func).rsplit(".", 1)[-1] == around.name for c in calls)


def _other_arm(sources: SourceTexts, freezing: list[Frame]) -> Frame | None:
    """The assignment in the ``else`` of an ``if`` whose own branch does the very same."""
    for file in {f.file for f in freezing}:
        for node in each(bindings.tree(sources, file), ast.If):
            if len(node.body) == 1 == len(node.orelse):
                one, other = node.body[0], node.orelse[0]
                at = bindings.frame_of(sources, file, other)
                same = ast.unparse(one) == ast.unparse(other)
                if same and any((f.line, f.column) == (at.line, at.column) for f in freezing):
                    return next(f for f in freezing if (f.line, f.column) == (at.line, at.column))
    return None


# A generator of parameters that a first loop uses up, so that a second one has nothing to run over.


def used_up(sources: SourceTexts) -> tuple[Remedy, ...]:
    """Make a list of each such generator."""
    found = []
    for file in sources:
        root = bindings.tree(sources, file)
        scopes = [root, *(n for n in each(root, ast.FunctionDef, ast.AsyncFunctionDef))]
        for scope in scopes:
            found += [bindings.frame_of(sources, file, value) for value in _generators(scope)]
    why, note = "the first loop uses the generator up", "The second loop then runs over the parameters too."
    titles = ((f, f"make a list of the parameters at {where(f)}: {why}") for f in found)
    return tuple(r for f, title in titles for r in remedy_at(f, "rewrite", title, "unsafe", note, pairs=LIST))


def _generators(scope: ast.AST) -> list[ast.Call]:
    """The calls whose result has a name that two loops of this scope run over, bound once."""
    inside = list(own_nodes(scope))
    loops = [n.iter.id for n in inside if isinstance(n, ast.For) and isinstance(n.iter, ast.Name)]
    bound: dict[str, list[ast.expr]] = {}
    for node in inside:
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            bound.setdefault(node.targets[0].id, []).append(node.value)
    twice = [values[0] for name, values in bound.items() if len(values) == 1 and loops.count(name) > 1]
    calls = [value for value in twice if isinstance(value, ast.Call)]
    return [c for c in calls if path_of(c.func).rpartition(".")[2] in ITERATORS]
