"""A value that is all of a term: taken as a constant, the term trains nothing, and that is left open."""

from __future__ import annotations

from pathlib import Path

import pytest
from questions import asked

from graphdoc.diagnose import findings_for

PROGRAM = """
coder = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 3))
judge = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1), nn.Sigmoid())
coding = torch.optim.SGD(coder.parameters(), lr=0.1)
judging = torch.optim.SGD(judge.parameters(), lr=0.1)
for x in torch.randn(3, 5, 3):
    made = coder(x)
    score = judge(made.detach())
    valued = judge(x).log().mean() + (1 - score).log().mean()
    term = TERM
    wanted = TOTAL
    judging.zero_grad()
    valued.neg().backward(retain_graph=True)
    judging.step()
    coding.zero_grad()
    wanted.backward()
    coding.step()
"""
TWO = "0.3 * (made - x).square().mean() + 0.5 * term"


@pytest.mark.breadth(2)
@pytest.mark.parametrize(
    ("term", "total", "left"),
    [
        ("F.binary_cross_entropy(score, torch.ones(5, 1))", TWO, True),
        ("score.log().mean()", "(made - x).square().mean() - term", True),
        ("(score * made).mean()", TWO, False),
        ("score - 0.1", "(made.sum(1, keepdim=True) * term).mean()", False),
        ("score - 0.1", "0.3 * (made.sum(1) * 2).mean() * term.mean()", False),
    ],
    ids=["of its own", "taken off", "beside another", "a factor", "a factor in the sum"],
)
def test_a_term_that_would_train_nothing_is_left_open(tmp_path: Path, term: str, total: str, left: bool) -> None:
    program = asked(tmp_path, PROGRAM.replace("TERM", term).replace("TOTAL", total))
    found, _ = findings_for(program.evidence)
    cuts = [r for r in found[0].finding.remedies if r.title.startswith("detach")]
    assert cuts
    said = "what train.py:14 adds to the loss then trains nothing: what it is to train, no run tells"
    assert {r.open for r in cuts} == ({said} if left else {""})
