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
