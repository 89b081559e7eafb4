"""Of two values of one name the loss took the older: the newer is proposed only where nothing else takes it."""

from __future__ import annotations

import pytest

from graphdoc.finding import Remedy
from graphdoc.remedies.newer_value import of_this_update

SOURCE = """\
class Pair:
    def judging(self):
        self.score = self.judge(self.drawn.detach())
        return self.score.mean()

    def painting(self, kind):
        score = self.judge(self.drawn)
        if kind == "plain":
            loss = score.mean()
        else:
            loss = (self.score - 1).mean()
        return loss
"""


def _cut(text: str) -> Remedy:
    line = next(i for i, t in enumerate(text.splitlines(), 1) if "(self.score - 1)" in t)
    at = {"file": "train.py", "line": line, "column": 20}
    return Remedy("detach_expression", "", "unsafe", "", {"place": at, "operands": [["self.score", "tensor"]]})


def test_the_value_that_nothing_takes_is_used():
    (remedy,) = of_this_update({"train.py": SOURCE}, _cut(SOURCE))
    assert (remedy.kind, remedy.args["operand"], remedy.args["name"]) == ("use_instead", "self.score", "score")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("        return loss", "        return loss + score.mean()"),  # it reaches the loss already
        ("score = self.judge(self.drawn)", "score = self.judge(self.real)"),  # of something else
        ("score = self.judge(self.drawn)", "score = self.other(self.drawn)"),  # by something else
        ("(self.drawn.detach())", "(self.drawn)"),  # nothing was cut off: the two are one value
        ("        score = self.judge(self.drawn)\n", ""),
    ],
)
def test_a_value_that_may_be_meant_is_left(old, new):
    text = SOURCE.replace(old, new)
    assert text != SOURCE
    assert of_this_update({"train.py": text}, _cut(text)) == []
