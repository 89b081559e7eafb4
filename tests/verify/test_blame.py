"""Which later failures a patch can have led to, told by what its changed statements bind."""

from __future__ import annotations

import pytest

from graphdoc.evidence import Frame
from graphdoc.verify.failing_again import changed_lines, leads_to, unbinds

PROGRAM = """\
import numpy as np
import torch

class Net:
    def forward(self, x):
        self.hidden = x * 2
        return self.hidden + 1

def total(parts):
    return np.sum(parts, 0)

net = Net()
rate = 0.1
out = net(torch.ones(2))
whole = total([out])
mean = whole / 2
print(rates)
print(mean.nowhere)
"""


def line_of(text: str, part: str) -> Frame:
    number = next(i for i, line in enumerate(text.splitlines(), 1) if part in line)
    return Frame("train.py", number)


@pytest.mark.parametrize(
    ("old", "new", "failing", "answer"),
    [
        ("np.sum(parts, 0)", "sum(parts)", "print(rates)", False),
        ("np.sum(parts, 0)", "sum(parts)", "mean.nowhere", True),  # through the function's result
        ("np.sum(parts, 0)", "sum(parts)", "return sum(parts)", True),  # the changed line itself
        ("self.hidden = x * 2", "self.hidden = x.detach() * 2", "mean.nowhere", True),  # attribute, forward, argument
        ("self.hidden = x * 2", "self.hidden = x.detach() * 2", "print(rates)", False),
        ("rate = 0.1", "rate = 0.2", "mean.nowhere", False),
    ],
)
def test_a_failure_is_the_patchs_where_its_values_reach_it(old, new, failing, answer):
    text = PROGRAM.replace(old, new)
    assert leads_to({"/w/train.py": PROGRAM}, {"/w/train.py": text}, {}, line_of(text, failing), "/w") is answer


@pytest.mark.parametrize(
    ("old", "new", "answer"),
    [
        ("np.float(2.0) * self.rate", "np.float(2.0) * kept.rate", False),
        ("np.float(2.0) * self.rate", "np.floating(2.0) * self.rate", True),
        ("self.float(2.0) * self.rate", "self.float(2.0) * kept.rate", True),
    ],
)
def test_what_reads_imports_alone_fails_on_a_changed_line_as_it_would_have_before(old, new, answer):
    before, after = (f"import numpy as np\n\n\ndef back(self, kept):\n    return {one}\n" for one in (old, new))
    failing = Frame("train.py", 5, column=12, end_line=5, end_column=12 + new.index("("))
    assert leads_to({"/w/train.py": before}, {"/w/train.py": after}, {}, failing, "/w") is answer


def test_what_is_not_known_may_be_the_patchs():
    text = PROGRAM.replace("rate = 0.1", "rate = 0.2")
    assert leads_to({}, {"/w/train.py": text}, {}, line_of(text, "print(rates)"), "/w")
    assert leads_to({"/w/train.py": PROGRAM}, {"/w/train.py": text}, {}, Frame("other.py", 3), "/w")
    assert leads_to({"/w/train.py": "def ("}, {"/w/train.py": text}, {}, line_of(text, "print(rates)"), "/w")


def test_values_are_followed_into_other_files():
    old = "import layers\nx = 1\ny = layers.scale(x)\n"
    other = "def scale(v):\n    return v.item()\ndef idle(w):\n    return missing\n"
    new = old.replace("x = 1", "x = 2")
    files = {"/w/layers.py": other}
    assert leads_to({"/w/train.py": old}, {"/w/train.py": new}, files, Frame("layers.py", 2), "/w")
    assert not leads_to({"/w/train.py": old}, {"/w/train.py": new}, files, Frame("layers.py", 4), "/w")


def test_lines_that_the_other_text_lacks():
    assert changed_lines("a\nb\nc\n", "a\nB\nc\nd\n") == ({2}, {2, 4})


LATE = """\
for step in range(4):
    loss = model(x)
    if step % 2:
        image = loss * 2
    writer.add(loss)
    writer.show(image)
"""


@pytest.mark.parametrize(
    ("old", "new", "answer"),
    [
        ("    loss = model(x)", "    loss = model(x).detach()", False),  # it reaches the writer, and binds no image
        ("        image = loss * 2\n", "        image = loss * 3\n", True),
        ("    if step % 2:", "    if step % 3:", True),
        ("    writer.show(image)", "    writer.show(image.cpu())", True),
    ],
)
def test_a_name_that_is_not_defined_is_the_patchs_where_it_binds_it(old, new, answer):
    text = LATE.replace(old, new)
    at = line_of(text, "writer.show")
    assert unbinds({"/w/train.py": LATE}, {"/w/train.py": text}, "image", at, "/w") is answer
    assert unbinds({}, {"/w/train.py": text}, "image", at, "/w")  # what it was is not known
