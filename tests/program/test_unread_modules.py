"""Parts of a model that nothing reads after they are built."""

from __future__ import annotations

import pytest

from graphdoc.program.modules_in_source import never_read

BUILT = "class Net:\n    def __init__(self):\n        self.used = a()\n        self.left = b()\n"
CALLED = BUILT + "\n    def forward(self, x):\n        return self.used(x)\n"


def test_the_part_that_no_code_names_again() -> None:
    found = never_read({"a.py": CALLED}, "net.left.weight")
    assert found is not None
    assert (found[0], found[1].line) == ("left", 4)
    assert never_read({"a.py": CALLED}, "net.used.weight") is None


@pytest.mark.parametrize(
    "more",
    [
        "\nfor m in net.children():\n    m(x)\n",
        "\nnet.left(x)\n",
        '\ngetattr(net, "left")(x)\n',
        "\nnet.left = c()\n",
    ],
)
def test_what_may_be_read_in_another_way_is_not_told(more: str) -> None:
    assert never_read({"a.py": CALLED, "b.py": more}, "net.left.weight") is None
