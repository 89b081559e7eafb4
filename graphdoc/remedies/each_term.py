"""One remedy for all the terms of a loss that hang on a cut each: mended alone, one would leave the others cut off."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphdoc.finding import Remedy
from graphdoc.model import Safety
from graphdoc.program.spans import where
from graphdoc.remedies.constant_value import frame_at


def for_each_term(ways: Sequence[tuple[Remedy, ...]]) -> tuple[Remedy, ...]:
    """The first cut's remedies where it is alone; else the best of each cut's together, and nothing where one has none.

    ``ways``: for each cut its remedies, best first.
    """
    if len(ways) < 2:
        return ways[0] if ways else ()
    if not all(ways):
        return ()
    best = [way[0] for way in ways]
    edits: list[dict[str, Any]] = [{"kind": r.kind, "args": dict(r.args)} for r in best]
    lines = " and ".join(dict.fromkeys(where(frame_at(r.args["place"])) for r in best))
    titles = list(dict.fromkeys(r.title for r in best))
    safety: Safety = "safe" if all(r.safety == "safe" for r in best) else "unsafe"
    note = f"{best[0].note.rstrip('.')}, by each of its terms."
    return (Remedy("several", f"{'; '.join(titles)}, at {lines}", safety, note, {"edits": edits}),)
