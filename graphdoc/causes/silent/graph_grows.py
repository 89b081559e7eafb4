"""GD704: a value gathers the graph of every iteration."""

from __future__ import annotations

import ast

from graphdoc.causes.base import Page
from graphdoc.evidence import Frame, Sign, SourceTexts
from graphdoc.finding import Finding, Remedy, edit_at
from graphdoc.program import bindings
from graphdoc.program.observed import Program
from graphdoc.program.proof import Proof
from graphdoc.program.spans import innermost_user, place, span, span_of
from graphdoc.remedies.fix_places import applies
from graphdoc.source.module import is_method_call
from graphdoc.source.paths import only
from graphdoc.story.wording import first_told

PAGE = Page(
    code="GD704",
    title="A running total or list keeps the graph of every iteration alive",
    families=("silent",),
    what_happened="""\
A loss is added to a running total, an average or a list, for the log. The loss carries its graph, so the total carries
the graphs of all iterations. Memory and the time to free it grow with every step, although `backward()` has long been
called for each of these losses.""",
    why="""\
Adding two tensors makes a node that leads to both. PyTorch keeps a graph as long as something leads to it; it cannot
know that a total is only meant to be printed. `backward()` frees the saved activations, not the nodes.""",
    example="""\
loss.backward()
optimizer.step()
total += loss""",
    use_instead="""\
loss.backward()
optimizer.step()
total += loss.item()""",
    fix_safety="""\
Safe: the graphs that are dropped have been freed, nothing can be differentiated through them. `.detach()` keeps a
tensor and does not wait for a GPU, `.item()` gives a number and does.""",
    not_this="""\
- `backward()` is called on the total, and PyTorch raised an error: `accumulated-loss`.
- The values are meant to be differentiated together later: then no `backward()` has used them up.""",
    references=("torch.Tensor.detach",),
)

_KINDS: tuple[tuple[str, dict[str, bool]], ...] = (
    ("accumulate_number", {"plain": True}),
    ("accumulate_number", {}),
    ("detach_expression", {}),
)
"""The first where a meter is given numbers as well, the last for an expression that is no plain accumulation: an
average, one side of a condition."""


def recognise(program: Program) -> Finding | None:
    """The held value leads to the used-up graphs of several iterations."""
    others = [s for s in program.signs if s.kind == "graph-grows" and not s.weak and not s.facts["list"]]
    return first_told(program, ("graph-grows", lambda _, s: _told(program.sources, s, others)))


def _told(sources: SourceTexts, sign: Sign, every: list[Sign]) -> Finding | None:
    name, nodes = str(sign.facts["name"]), int(sign.facts["nodes"])
    appended = _appended(sources, name) if sign.facts["list"] else None
    at = appended or innermost_user(sign.stack)
    if at is None:
        return None
    gathers = "is appended with its graph" if appended else "joins this iteration's graph to all earlier ones"
    if sign.facts["list"] and not appended:
        gathers = f"made with its graph, and kept in `{name}`"
    more = span_of("created", sign.stack, "made here, with its graph") if appended else ()
    others = [(s, f) for s in every if s is not sign and not sign.facts["list"] and (f := innermost_user(s.stack))]
    also = [span("cause", f, f"the same for `{s.facts['name']}`") for s, f in others]
    note = "the numbers stay, and each old graph leaves memory; no backward could use it: parts of it are freed"
    kinds = _KINDS if appended or not sign.facts["list"] else ()  # what is made there is used by others too
    remedies = [(_remedy(kind, [at, *(f for _, f in others)], note, plain), plain) for kind, plain in kinds]
    title = f"`{name}` keeps the graph of every iteration alive"
    text = f"Backward frees what a graph has saved. The graph itself stays in memory as long as `{name}` leads to it."
    spans = (span("cause", at, gathers), *also, *more)
    ways = tuple(r for r, plain in remedies if not plain or (sign.facts.get("one") and applies(sources, r)))
    because = f"after {sign.count} steps `{name}` leads to {nodes} nodes of graphs whose backward is done"
    return Finding(
        0.85, "possible" if sign.weak else Proof.STEPS.confidence, title, text, spans, remedies=ways, because=because
    )


def _remedy(kind: str, places: list[Frame], note: str, further: dict[str, bool]) -> Remedy:
    if len(places) == 1:
        return Remedy(kind, "keep the value without its graph", "safe", note, {"place": place(places[0]), **further})
    edits = [edit_at(kind, at, **further) for at in places]
    return Remedy("several", "keep the values without their graphs", "safe", note, {"edits": edits})


def _appended(sources: SourceTexts, name: str) -> Frame | None:
    """The statement that appends to the list of this name, if there is one only."""
    last = name.rpartition(".")[2]
    found = [
        bindings.frame_of(sources, file, node)
        for file, node in bindings.everywhere(sources, ast.Call)
        if is_method_call(node, "append") and bindings.text_of(node.func.value).rpartition(".")[2] == last
    ]
    return only(found)
