"""A step that is added: behind what clips or scales the gradient, in front of what throws away a sum of several."""

from __future__ import annotations

import pytest
from marked import FILE, unmark

from graphdoc.evidence import Frame
from graphdoc.fixes.kinds import build
from graphdoc.remedies.clipping import step_place
from graphdoc.source.module import Source

CLEARED = "for x in data:\n    «opt.zero_grad()»\n    «loss(x).backward()»\n"
SUMMED = "for i, x in data:\n    «loss(x).backward()»\n"
PROGRAMS = {
    "plain": CLEARED + "    STEP\n",
    "clipped": CLEARED + "    clip_grad_norm_(p, 1.0)\n    STEP\n",
    "clipped if asked": CLEARED + "    if clip:\n        nn.utils.clip_grad_value_(p, 1.0)\n    STEP\n    log(x)\n",
    "another's clipping": CLEARED
    + "    STEP\n    other.zero_grad()\n    second(x).backward()\n    clip_grad_norm_(q, 1.0)\n    other.step()\n",
    "several": SUMMED
    + "    if i % 4 == 3:\n        clip_grad_norm_(p, 1.0)\n        STEP\n        «opt.zero_grad()»\n",
    "thrown away at the end": SUMMED + "    STEP\n    «opt.zero_grad()»\n",
}


@pytest.mark.parametrize("wanted", PROGRAMS.values(), ids=PROGRAMS)
def test_a_step_is_put_where_the_gradient_is_complete(wanted: str) -> None:
    lines = [line for line in wanted.splitlines(keepends=True) if "STEP" not in line]
    text, marks = unmark("".join(lines))
    backward, cleared = sorted(marks, key=lambda m: "backward" not in text.splitlines()[m["line"] - 1])
    at, before = step_place({FILE: text}, Frame(**backward), Frame(**cleared))
    sources = {FILE: Source(FILE, text)}
    (edits,) = build(
        "add_statement", sources, {"place": vars(at), "statement": "opt.step()", "before": before}
    ).values()
    assert edits == unmark(wanted.replace("STEP", "opt.step()"))[0]
