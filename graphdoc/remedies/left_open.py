"""What no trial can decide of a fix that gives a value its graph back, or takes it away, as the end of a sentence."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from graphdoc.evidence import Cut, Folded, Frame, Node, OlderEdge, SourceTexts
from graphdoc.evidence.lookup import node_with
from graphdoc.program.bindings import frame_of, function_around, text_of, tree
from graphdoc.program.constant_terms import is_whole_term
from graphdoc.program.cuts_beside import left_cut
from graphdoc.program.drawn_values import drawn_within
from graphdoc.program.observed import Program
from graphdoc.program.several_uses import uses_of_cut
from graphdoc.program.spans import innermost, innermost_user, where
from graphdoc.source.paths import covers, last_word
from graphdoc.story.wording import folded, listing


def open_at_cut(program: Program, cut: Cut) -> str:
    """That the loss takes up the value at several places, each of which then trains what lies behind it; or that a
    part of it is a draw. Empty where neither is so."""
    uses = uses_of_cut(program, cut) if cut.behind else []
    at = innermost(cut.stack)
    if not uses:
        root = tree(program.sources, at.file) if at is not None else None
        around = function_around(root, at.line) if root is not None and at is not None else None
        called = open_at_calls(program.sources, cut.stack, at.file, around) if at is not None and around else ""
        return called or open_at_draw(program.sources, at)
    lines = listing(map(where, uses), len(uses))
    return f"the loss takes the value up at {lines}: which of these is to train {folded(cut.behind)}, no run tells"


def open_at_others(program: Program, mended: Sequence[Cut]) -> str:
    """That the loss keeps being cut at other places, of what it may have been meant to train there; or nothing."""
    places = list(dict.fromkeys(where(f) for c in left_cut(program, mended) if (f := innermost(c.stack)) is not None))
    if not places:
        return ""
    verb = "keeps" if len(places) == 1 else "keep"
    told = listing(places, 3)
    return f"{told} {verb} the loss from training what lies behind there, too: whether that is meant, no run tells"


def open_at_calls(sources: SourceTexts, stack: Sequence[Frame], file: str, function: ast.stmt) -> str:
    """That this function is called at several places, by the one that called it or elsewhere: some may be meant to have
    no graph, as a target is, or turn what they get into an array. Empty where it is not. ``stack`` is that of an
    operation inside of it."""
    own = [f for f in stack if f.user]
    inside = next((i for i, f in enumerate(own) if f.file == file and covers(function, f.line)), 0)
    caller = own[inside - 1] if inside else None
    root = tree(sources, caller.file) if caller is not None else None
    if caller is None or root is None:
        return ""
    scope = function_around(root, caller.line) or root
    calls = [n for n in ast.walk(scope) if isinstance(n, ast.Call) and covers(n, caller.line)]
    here = next((c for c in calls if frame_of(sources, caller.file, c).extent == caller.extent), None)
    if here is None:
        return ""
    name = text_of(here.func)
    same = sum(isinstance(n, ast.Call) and text_of(n.func) == name for n in ast.walk(scope))
    if same > 1:
        return f"`{name}` is called at {same} places there, and which of them is to train, no run tells"
    every = _calls_of(sources, getattr(function, "name", ""))
    told = f"`{name}` is called at {every} places of the program, and which of them is to train, no run tells"
    return told if every > 1 else ""


def _calls_of(sources: SourceTexts, name: str) -> int:
    """How often the program calls the one function of this name; 0 where several have it, or PyTorch calls it."""
    if name == "forward" or name.startswith("__"):
        return 0
    nodes = [n for file in sources for n in ast.walk(tree(sources, file) or ast.Module([], []))]
    if sum(isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef) and n.name == name for n in nodes) != 1:
        return 0
    return sum(isinstance(n, ast.Call) and last_word(n.func) == name for n in nodes)


def open_at_loop(again: Sequence[Frame]) -> str:
    """That a value is made anew by a loop within one pass (the first of its places is told), which a longer pass runs
    through more often: what it hands on to itself is cut off, too. Empty where there is no such place."""
    if not again:
        return ""
    return (
        f"{where(again[0])} is a loop within one pass: whether it learns from one round to the next there, no run tells"
    )


def open_at_draw(sources: SourceTexts, frame: Frame | None) -> str:
    """That the expression at a place holds a draw, whatever else of it is recorded; empty where it holds none."""
    found = drawn_within(sources, frame) if frame is not None else None
    if found is None:
        return ""
    return f"`{found[0]}` is drawn by `{found[1]}`, which has no derivative: nothing is learnt through the draw"


def open_at_terms(folded: Folded | None, frames: list[Frame]) -> str:
    """That a term of the loss is made of the value alone, and trains nothing where that is a constant. ``frames`` are
    the places at which the loss takes it up. Empty where there is no such term."""
    terms = list(dict.fromkeys(where(f) for f in frames if is_whole_term(folded, f)))
    if not terms:
        return ""
    verb = "trains" if len(terms) == 1 else "train"
    it = "it is" if len(terms) == 1 else "they are"
    return f"what {listing(terms)} adds to the loss then {verb} nothing: what {it} to train, no run tells"


def taking(nodes: list[Node], carries: list[OlderEdge]) -> list[Frame]:
    """The places at which the failing graph takes up what these edges lead to."""
    found = (node_with(nodes, c.consumer) for c in carries)
    return [f for node in found if node is not None and (f := innermost_user(node.stack)) is not None]
