"""Custom Functions of the old style made static."""

from __future__ import annotations

import pytest
from marked import fixed

from graphdoc.fixes.fix_kind import CannotFix

PLAIN = """\
class Turned(Function):
    def forward(self, x):
        return x.view_as(x)

    def backward(self, g):
        return -g


def turned(x):
    return «Turned()(x)» + Turned()(2 * x)
"""
KEPT = """\
class Turned(Function):
    \"\"\"Turns gradients.\"\"\"

    def __init__(self, by, most=1.0):
        super().__init__()
        self.by, self.most = by, most
        self.calls = 0

    def forward(self, x, y):
        \"\"\"Nothing changes.\"\"\"
        return x + y

    def backward(self, g):
        return (-self.by * g).clamp(max=self.most), g


z = «Turned(most=2, by=0.1)(x, y)»
"""


def test_a_function_that_keeps_nothing() -> None:
    assert fixed("static_function", PLAIN) == (
        PLAIN.replace("«", "")
        .replace("»", "")
        .replace("    def f", "    @staticmethod\n    def f")
        .replace("    def b", "    @staticmethod\n    def b")
        .replace("self", "ctx")
        .replace("Turned()(", "Turned.apply(")
    )


def test_what_it_keeps_is_handed_to_forward() -> None:
    text = fixed(
        "static_function", KEPT.replace("self.by, self.most = by, most", "self.by = by\n        self.most = most")
    )
    assert "__init__" not in text
    assert "    def forward(ctx, x, y, by, most):\n" in text
    assert "        ctx.by = by\n        ctx.most = most\n        ctx.calls = 0\n        return x + y\n" in text
    assert "return (-ctx.by * g).clamp(max=ctx.most), g, None, None\n" in text
    assert text.endswith("z = Turned.apply(x, y, 0.1, 2)\n")


REFUSED = [
    (KEPT, "does more than to keep"),  # a tuple is bound
    (PLAIN.replace("    def forward", "    @staticmethod\n    def forward"), "decorated"),
    (PLAIN.replace("(self, x)", "(self, *x)"), "free number"),
    (PLAIN.replace("+ Turned()(2 * x)", "+ [Turned][0]()(x)"), "another way"),
    (PLAIN.replace("    def backward(self, g):\n        return -g\n", ""), "no forward and backward"),
    (PLAIN.replace("Turned()(2 * x)", "Turned()(*x)"), "in order"),
    (PLAIN.replace("class Turned", "class Other"), "not in sight"),
]


@pytest.mark.parametrize(("text", "reason"), REFUSED)
def test_refuses(text: str, reason: str) -> None:
    with pytest.raises(CannotFix, match=reason):
        fixed("static_function", text)
