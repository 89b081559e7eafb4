"""What is made in each round is made once: in front of its loop, in front of its caller's, or in ``__init__``."""

from __future__ import annotations

import pytest
from marked import fixed

from graphdoc.fixes.fix_kind import CannotFix

IN_A_LOOP = "for e in range(3):\n    for x in data:\n        «s = Scaler(size)»\n        use(s, x)\n"
AS_ATTRIBUTE = (
    "class Fit:\n    def __init__(self):\n        self.size = 2\n\n    def run(self, data):\n"
    "        «self.s = Scaler(self.size)»\n        use(self.s, data)\n"
)
WITH_DEFAULTS = """\
def run(data, size=2):
    «s = Scaler(size)»
    use(s, data)


for e in range(3):
    run(e, size=base + 1)
"""
MADE = {
    "in front of the outermost loop": (
        IN_A_LOOP,
        "s = Scaler(size)\nfor e in range(3):\n    for x in data:\n        use(s, x)\n",
    ),
    "in __init__": (
        AS_ATTRIBUTE,
        "class Fit:\n    def __init__(self):\n        self.size = 2\n        self.s = Scaler(self.size)\n\n"
        "    def run(self, data):\n        use(self.s, data)\n",
    ),
    "handed in behind defaults": (
        WITH_DEFAULTS,
        "def run(data, size=2, s=None):\n    use(s, data)\n\n\ns = Scaler(base + 1)\n"
        "for e in range(3):\n    run(e, size=base + 1, s=s)\n",
    ),
}
REFUSED = {
    "another size in each round": "for e in range(3):\n    «s = Scaler(e)»\n    use(s)\n",
    "another size in each call": "def run(n):\n    «s = Scaler(n)»\n    use(s)\n\n\nfor e in range(3):\n    run(e)\n",
    "two callers": "def run():\n    «s = Scaler()»\n    use(s)\n\n\nfor e in range(3):\n    run()\nrun()\n",
    "what the function computes": "def run():\n    n = 3\n    «s = Scaler(n)»\n\n\nfor e in range(3):\n    run()\n",
    "known to the method alone": AS_ATTRIBUTE.replace("Scaler(self.size)", "Scaler(data)"),
}


@pytest.mark.parametrize("name", MADE)
def test_it_is_made_once(name: str) -> None:
    before, after = MADE[name]
    assert fixed("make_once", before) == after


@pytest.mark.parametrize("name", REFUSED)
def test_it_stays_where_each_is_another_one(name: str) -> None:
    with pytest.raises(CannotFix):
        fixed("make_once", REFUSED[name])


FORWARD = """\
class Block(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.size = size

    def forward(self, x):
        score = «nn.Linear(WIDE, self.size)»
        x = «nn.LayerNorm(WIDE)»(x)
        return «nn.LayerNorm(WIDE)»(score(x))
"""


def test_layers_of_a_forward_are_made_in_init() -> None:
    text = fixed("make_in_init", FORWARD, places=["@0", "@1", "@2"])
    made = text[text.index("self.size = size") : text.index("    def forward")]
    assert made.split("\n") == [
        "self.size = size",
        "        self.score = nn.Linear(WIDE, self.size)",
        "        self.layer_norm = nn.LayerNorm(WIDE)",
        "        self.layer_norm2 = nn.LayerNorm(WIDE)",
        "",
        "",
    ]
    assert "score = self.score\n        x = self.layer_norm(x)\n        return self.layer_norm2(score(x))\n" in text


@pytest.mark.parametrize("size", ["x.shape[-1]", "self.other"])
def test_a_layer_whose_size_init_does_not_know_stays(size: str) -> None:
    with pytest.raises(CannotFix):
        fixed("make_in_init", FORWARD.replace("self.size)", f"{size})"), places=["@0"])
