"""What the boxes and arrows of the drawn graph look like, and the key that says so."""

from __future__ import annotations

from html import escape

from graphdoc.render.page.shown_places import hue
from graphdoc.render.text import flat
from graphdoc.shapes import Box, Picture

_KEY = (
    ("live", "operations: alive"),
    ("released", "released by an earlier call"),
    ("stale", "saved values overwritten since"),
    ("call", "a call of the program"),
    ("write", "a write in place"),
    ("gap", "where the chain ends"),
    ("value", "hands on a value that is not finite"),
)
_WAYS = (
    ("fatal", "the edge at which it failed"),
    ("freed", "releases"),
    ("overwrites", "overwrites"),
    ("broken", "no gradient passes"),
    ("carries", "hands the value on"),
)


def box_class(box: Box, picture: Picture) -> str:
    """The names by which the style sheet knows a box."""
    names = ["box", box.kind if box.kind != "operations" else box.state]
    names += [name for name, on in (("older", box.older), ("fatal", box.fatal)) if on]
    if box.kind == "parameters":
        names.append(f"o{hue(picture.optimizers, box.optimizers[0]) if box.optimizers else 0}")
    return " ".join(names)


def key(picture: Picture) -> str:
    """A list of what occurs in this drawing."""
    seen = {name for box in picture.boxes for name in box_class(box, picture).split()}
    ways = {arrow.way for arrow in picture.arrows}
    entries = [(_rect(name), told) for name, told in _KEY if name in seen]
    if "older" in seen:
        entries.append((_rect("live older"), "dashed: made before the latest backward call"))
    if any(box.fatal and box.kind != "parameters" for box in picture.boxes):
        entries.append((_rect("call fatal"), "where it went wrong"))
    if any(box.fatal and box.kind == "parameters" for box in picture.boxes):
        entries.append((_rect("parameters fatal"), "what this is about"))
    entries += [(f'<path class="arrow {way}" d="M1 8L25 8"/>', told) for way, told in _WAYS if way in ways]
    owners = {o for box in picture.boxes for o in box.optimizers}
    for ident, name in picture.optimizers:
        if ident in owners:
            swatch = _rect(f"parameters o{hue(picture.optimizers, ident)}")
            entries.append((swatch, f"held by <code>{escape(flat(name))}</code>"))
    if any(box.kind == "parameters" and not box.optimizers for box in picture.boxes):
        entries.append((_rect("parameters o0"), "in no optimizer"))
    drawn = "<svg class=graph width=26 height=16 aria-hidden=true>{}</svg>"
    return "<ul class=key>" + "".join(f"<li>{drawn.format(swatch)}{told}</li>" for swatch, told in entries) + "</ul>"


def _rect(names: str) -> str:
    return f'<g class="box {names}"><rect x="2" y="2" width="22" height="12" rx="3"/></g>'
