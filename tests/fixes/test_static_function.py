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


def test_what_nothing_is_differentiated_through_has_no_backward() -> None:
    text = fixed("static_function", PLAIN.replace("    def backward(self, g):\n        return -g\n", ""))
    assert "    @staticmethod\n    def forward(ctx, x):\n" in text
    assert "return Turned.apply(x) + Turned.apply(2 * x)\n" in text


HELD = """\
class Turned(Function):
    def __init__(self, by=0.1):
        super(Turned, self).__init__()
        self.by = by
        self.calls = 0

    def grow(self):
        self.by *= 2

    def forward(self, x):
        self.calls += 1
        self.save_for_backward(x)
        self.grow()
        return x * 1.0

    def backward(self, g):
        (x,) = self.saved_tensors
        self.now = self.by * self.calls
        return -self.now * g


class Net(Module):
    def __init__(self):
        self.turned = Turned(by=0.2)

    def forward(self, x):
        return «self.turned(x)» + self.turned(2 * x)
"""


def test_what_a_kept_object_holds_becomes_a_plain_class() -> None:
    text = fixed("static_function_kept", HELD, name="Turned")
    state, function = text.split("class Turned(Function):")
    assert state.startswith("class TurnedState:\n    def __init__(self, by=0.1):\n        self.by = by\n")
    assert "    def grow(self):\n        self.by *= 2\n" in state
    assert "super" not in state
    assert "    def forward(ctx, x, kept):\n        ctx.kept = kept\n        kept.calls += 1\n" in function
    assert "ctx.save_for_backward(x)\n        kept.grow()\n" in function
    assert "ctx.now = ctx.kept.by * ctx.kept.calls\n        return -ctx.now * g, None\n" in function
    assert "self.turned = TurnedState(by=0.2)\n" in function
    assert "return Turned.apply(x, self.turned) + Turned.apply(2 * x, self.turned)\n" in function


def test_a_kept_object_may_be_bound_beside_another_value() -> None:
    beside = HELD.replace("self.turned = Turned(by=0.2)", "self.turned, self.rate = Turned(by=0.2), 0.5")
    assert "self.turned, self.rate = TurnedState(by=0.2), 0.5\n" in fixed("static_function_kept", beside, name="Turned")


def test_an_object_that_holds_nothing_is_not_needed() -> None:
    text = fixed(
        "static_function_kept",
        PLAIN.replace("def turned(x):", "turn = Turned()\n\n\ndef turned(x):").replace("Turned()(", "turn("),
        name="Turned",
    )
    assert "turn = Turned.apply\n" in text
    assert "return turn(x) + turn(2 * x)\n" in text
    assert "    @staticmethod\n    def backward(ctx, g):\n        return -g\n" in text


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("self.turned = Turned(by=0.2)", "self.turned = [Turned(by=0.2)]", "another way"),
        ("self.turned(2 * x)", "self.turned(*x)", "in order"),
        ("self.grow()", "self.shrink()", "nothing in sight"),
        ("return x * 1.0", "return turn(self, x)", "means something else"),
        ("class Net", "class TurnedState:\n    pass\n\n\nclass Net", "means something else"),
    ],
)
def test_refuses_a_kept_object(old: str, new: str, reason: str) -> None:
    with pytest.raises(CannotFix, match=reason):
        fixed("static_function_kept", HELD.replace(old, new), name="Turned")


REFUSED = [
    (KEPT, "does more than to keep"),  # a tuple is bound
    (PLAIN.replace("    def forward", "    @staticmethod\n    def forward"), "decorated"),
    (PLAIN.replace("(self, x)", "(self, *x)"), "free number"),
    (PLAIN.replace("+ Turned()(2 * x)", "+ [Turned][0]()(x)"), "another way"),
    (PLAIN.replace("    def forward(self, x):\n        return x.view_as(x)\n", ""), "no forward of its own"),
    (PLAIN.replace("Turned()(2 * x)", "Turned()(*x)"), "in order"),
    (PLAIN.replace("class Turned", "class Other"), "not in sight"),
]


@pytest.mark.parametrize(("text", "reason"), REFUSED)
def test_refuses(text: str, reason: str) -> None:
    with pytest.raises(CannotFix, match=reason):
        fixed("static_function", text)
