"""What is drawn of a run whose graph was not kept: where a chain of gradients was cut, how a value that is not finite
came, or which parameters a call led to."""

from __future__ import annotations

from graphdoc.picture.canvas import Canvas, short
from graphdoc.program.bad_values import trouble_of
from graphdoc.program.spans import innermost_user
from graphdoc.shapes import Arrow

MOST_CUTS = 3
MOST_VALUES = 8
_HOW = {
    "birth": "the first {}",
    "turn": "infinity turns into nan",
    "given": "was given {}",
    "constant": "the program writes {}",
    "empty": "nothing to compute from",
}


def draw_cuts(canvas: Canvas) -> None:
    """The call without a graph, the operations that cut it, and what lies behind them."""
    call = canvas.latest_call()
    top = canvas.call(call, "has no graph to follow", True) if call is not None else -1
    for cut in canvas.evidence.cuts[:MOST_CUTS]:
        at, before = innermost_user(cut.stack), innermost_user(cut.before)
        below = canvas.place("gap", cut.op, f"ends here: {cut.reason}", at, True)
        if top >= 0:
            canvas.arrows.append(Arrow(top, below, "broken"))
        if before is not None and (at is None or (before.file, before.line) != (at.file, at.line)):
            last = canvas.place("operations", short(cut.before_op), "still had a graph", before)
            canvas.arrows.append(Arrow(below, last, "broken"))
            below = last
        canvas.parameters(below, cut.behind, "broken")
    canvas.gaps.append("There is no graph behind this call: drawn is where it was cut.")


def draw_values(canvas: Canvas) -> bool:
    """The operations that handed a value on which is not finite, from the first; whether there are any."""
    seen = canvas.evidence
    trouble = trouble_of(seen.signs, seen.sources, seen.raised, seen.packages)
    told = [b for b in trouble.chain if b.place is not None][-MOST_VALUES:] if trouble is not None else []
    if not told:
        return False
    above = -1
    for birth in told:
        note = _HOW.get(birth.kind, "{}").format(birth.shows or "a value that is not finite")
        box = canvas.place("value", short(birth.node) or birth.op, note, birth.place, birth is told[0])
        if above >= 0:
            canvas.arrows.append(Arrow(above, box, "carries"))
        above = box
    if trouble is not None and trouble.call:
        box = canvas.place("call", trouble.what, "met first here", innermost_user(trouble.call))
        canvas.arrows.append(Arrow(above, box, "carries"))
    canvas.gaps.append("Drawn is the way of the value that is not finite; the graph itself was not kept.")
    return True


def draw_reach(canvas: Canvas) -> None:
    """What a call led to, where nothing of the graph between was kept."""
    call = canvas.latest_call()
    if call is None:
        return
    reaches = canvas.journal.reaches(call) or sorted(canvas.about)
    if not reaches:
        canvas.gaps.append("What lies behind the calls of this run was not recorded.")
        return
    failed = canvas.evidence.failing_event == call.index
    canvas.parameters(canvas.call(call, "the call that failed" if failed else "leads to these", failed), reaches)
    canvas.gaps.append("The operations between the call and the parameters were not recorded.")
