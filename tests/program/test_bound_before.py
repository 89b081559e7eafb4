"""Where a written value comes from is said only where the lines above tell it."""

from __future__ import annotations

import pytest

from graphdoc.evidence import Frame
from graphdoc.program.spans import within_a_loop
from graphdoc.program.writers import bound_before

BRANCHES = """\
def softmax(vec, mask, mode):
    if mode == "max":
        vec[mask] = 0
        vec = vec * 2
    elif mode == "min":
        vec = vec.flip(0)
        vec[mask] = 1
    if mask:
        vec = vec + 1
    vec[0] = 2
    a, b = vec.chunk(2)
    b[0] = 1
"""


@pytest.mark.parametrize(
    ("line", "name", "made"),
    [(3, "vec", None), (7, "vec", 6), (10, "vec", None), (12, "b", 11), (12, "vec", None)],
)
def test_a_name_is_followed_to_what_surely_bound_it(line: int, name: str, made: int | None) -> None:
    found = bound_before({"net.py": BRANCHES}, Frame("net.py", line, 1, function="softmax"), name)
    assert (found.line if found else None) == made


def test_a_chain_of_calls_is_asked_for_the_loops_that_it_runs_through() -> None:
    text = "def forward(x):\n    for c in x:\n        store(c)\n\n\ndef store(c):\n    return c * 2\n"
    outer, inner = Frame("net.py", 3, 9, function="forward"), Frame("net.py", 7, 5, function="store")
    assert [f.line for f in within_a_loop({"net.py": text}, [outer, inner], inner)] == [2]
    assert within_a_loop({"net.py": text}, [inner], inner) == []
