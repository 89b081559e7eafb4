"""Two backward calls on one result: remove one of them."""

from __future__ import annotations

from graphdoc.evidence import Frame, SourceTexts
from graphdoc.finding import Remedy
from graphdoc.program.reuse import Reuse
from graphdoc.program.spans import code_at, place, where


def without_one(sources: SourceTexts, reuse: Reuse, first: Frame | None, second: Frame) -> tuple[Remedy, ...]:
    """Remove one of two calls on one result, of those that stand in the program's own text.

    The one on the bare loss where the other scales it, and where the other is a package's.
    """
    out: list[Remedy] = []
    if reuse.calls_before > 1:
        return ()  # of several calls on one result it is not known which is one too many
    if "backward(" in code_at(sources, second):
        note = "The loss is differentiated once; the second call walks the same graph again."
        title = f"remove the second backward call, at {where(second)}"
        out.append(Remedy("delete_statement", title, "unsafe", note, {"place": place(second)}))
    if first is not None and (reuse.only_scaled or not out) and "backward(" in code_at(sources, first):
        note = f"The loss is differentiated once, by the call below {where(second)}."
        if out:
            note = f"The loss is differentiated once, by the call at {where(second)}, with its factor."
        title = f"remove the first backward call, at {where(first)}"
        out.insert(0, Remedy("delete_statement", title, "unsafe", note, {"place": place(first)}))
    return tuple(out)
