"""The calls of the run as a table with a lane for each kind: forwards, backward calls, steps, writes."""

from __future__ import annotations

from html import escape

from graphdoc.render.page.shown_places import Places, called, hue, moment_id
from graphdoc.render.page.words import prose
from graphdoc.render.text import clip, flat
from graphdoc.shapes import Moment, Picture

_LANES = ("forward", "backward", "step", "other")
_LANE_OF = {"forward": 0, "backward": 1, "grad": 1, "step": 2}
_LONGEST = 90


def timeline(picture: Picture, places: Places) -> str:
    """The section; empty where no call was recorded."""
    if not picture.moments:
        return ""
    lanes = "".join(f"<th scope=col class=lane>{name}</th>" for name in _LANES)
    rows = [_row(number, moment, picture, places) for number, moment in enumerate(picture.moments)]
    before = ""
    if picture.before:
        told = ", ".join(f"{count} \u00d7 <code>{escape(flat(kind))}</code>" for kind, count in picture.before)
        before = f"<p>Before these calls: {told}.</p>"
    return (
        "<section id=calls aria-labelledby=calls-h><h2 id=calls-h>The calls of the run</h2>"
        f"{before}<div class=scroll tabindex=0 role=region aria-label='The calls as a table'><table class=calls>"
        f"<thead><tr>{lanes}<th scope=col>call</th><th scope=col>iteration</th><th scope=col>place</th>"
        f"<th scope=col>code</th></tr></thead><tbody>{''.join(rows)}</tbody></table></div></section>"
    )


def _row(number: int, moment: Moment, picture: Picture, places: Places) -> str:
    if moment.kind == "gap":
        return f"<tr class=gap><td colspan=8>{moment.skipped} calls are not in the journal</td></tr>"
    lane = _LANE_OF.get(moment.kind, 3)
    color = f" o{hue(picture.optimizers, moment.optimizer)}" if moment.optimizer >= 0 else ""
    dot = f"<td class=lane><span class='dot{color}' aria-hidden=true></span></td>"
    cells = "".join(dot if i == lane else "<td class=lane></td>" for i in range(len(_LANES)))
    anchor = places.anchor(moment.file, moment.line)
    place = escape(places.name(moment.file, moment.line))
    linked = f'<a href="#{anchor}">{place}</a>' if anchor else place
    code = escape(clip(flat(places.text(moment.file, moment.line)), _LONGEST))
    code = f"<code>{code}</code>" if code else ""
    name = "failed" if moment.failed else moment.kind if moment.kind in _LANE_OF else "other"
    return (
        f'<tr id="{moment_id(number)}" class="{name}">{cells}<td>{_told(moment, picture)}</td>'
        f"<td>{moment.iteration if moment.iteration >= 0 else ''}</td><td>{linked}</td>"
        f"<td>{code}</td></tr>"
    )


def _told(moment: Moment, picture: Picture) -> str:
    if moment.kind == "forward":
        return f"{moment.made:,} operation{'s' if moment.made != 1 else ''} recorded"
    told = moment.kind + (f" #{moment.number}" if moment.number > 0 else "")
    name = called(picture.optimizers).get(moment.optimizer, "")
    parts = [escape(flat(told)), f"<code>{escape(flat(name))}</code>" if name else "", prose(moment.text)]
    return " ".join(part for part in [*parts, "<strong>fails</strong>" if moment.failed else ""] if part)
