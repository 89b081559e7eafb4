"""What is drawn with a learned probability stays without a derivative, whatever else is recorded."""

from __future__ import annotations

import pytest

from graphdoc.evidence import Frame
from graphdoc.remedies.recording import open_at_draw

BODY = """\
def forward(self, x):
    p = torch.sigmoid(self.logit)
    m = {made}
    mask = Variable(m.div_(1 - p))
    return mask * x
"""


@pytest.mark.parametrize(
    ("made", "drawn"),
    [
        ("x.data.new(3).bernoulli_(1 - p)", "bernoulli_"),
        ("torch.bernoulli(p)", "bernoulli"),
        ("x.data.new(3).bernoulli_(0.5)", ""),
        ("torch.ones(3) - p", ""),
    ],
)
def test_a_draw_with_a_learned_probability_stays_cut_off(made: str, drawn: str) -> None:
    frame = Frame("net.py", 4, 12, 4, 35, "forward")
    told = open_at_draw({"net.py": BODY.format(made=made)}, frame)
    assert (f"`m` is drawn by `{drawn}`, which has no derivative" in told) is bool(drawn)
    assert bool(told) is bool(drawn)
