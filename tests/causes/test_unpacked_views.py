"""A backward call that needs one of several views: which one, of what, and whether a copy helps."""

from __future__ import annotations

from pathlib import Path

import pytest
from seen import observe

HEAD = "import torch\nfrom torch import nn\ntorch.manual_seed(0)\n"

PATH = """
gain = nn.Parameter(torch.tensor(0.5))
path = torch.zeros(4, 2)
path[0] = 0.3
for step in range(3):
    TAKEN
    path[step + 1] = torch.stack((a + gain * b, USED))
path.pow(2).sum().backward()
"""

STEPPED = """
weight = nn.Parameter(torch.rand(2, 3))
optimizer = torch.optim.SGD([weight], lr=0.1)
upper, lower = weight
kept = (upper ** 2).sum() + lower.sum()
weight.pow(2).sum().backward()
optimizer.step()
kept.backward()
"""


@pytest.mark.breadth(2)
@pytest.mark.parametrize(
    ("taken", "used", "whole", "named"),
    [
        ("a, b = path[step]", "gain * b**2", "path[step]", "`b`"),
        ("a, b = path[step].unbind()", "gain * b**2", "path[step]", "`b`"),
        ("a, b = path[step].chunk(2)\n    a, b = a.squeeze(), b.squeeze()", "gain * b**2", "", ""),
        ("a, b = torch.unbind(path[step])", "(gain * a) * b", "path[step]", "`a` or `b`"),
    ],
    ids=["unpacked", "unbound", "bound again", "of the function"],
)
def test_the_tensor_that_is_taken_apart_is_copied(
    tmp_path: Path, taken: str, used: str, whole: str, named: str
) -> None:
    found = observe(tmp_path, HEAD + PATH.replace("TAKEN", taken).replace("USED", used))
    assert found.slugs[0] == ("inplace-on-view" if whole else found.slugs[0])
    remedies = [r for r in found.found[0].finding.remedies if "take the parts of a copy" in r.title]
    assert bool(remedies) is bool(whole)
    if whole:
        assert remedies[0].safety == "unsafe" and remedies[0].open  # the loop may see the write through the parts
        assert f"{named} is one of several views of this" in found.said
        assert f"of several views (`unbind`, `chunk`, `split`) of `{whole}`" in found.said


def test_parts_of_a_parameter_that_was_stepped_are_no_more_to_be_had(tmp_path: Path) -> None:
    found = observe(tmp_path, HEAD + STEPPED)
    assert found.slugs[0] == "inplace-on-view"
    assert found.found[0].finding.remedies == ()


PAIR = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.part = nn.Linear(2, 2), torch.ones(2, 2).unbind()[0]
    def encode(self, x):
        return self.fc(x), self.fc(x)
    def forward(self, x):
        a, b = self.encode(x)
        return (a * PART).sum() + b.sum()

net = Net()
whole = torch.ones(2, 2)
one, _ = whole.unbind()
loss = net(torch.rand(2))
loss.backward()
"""


def test_what_a_function_returns_is_no_tensor_that_is_taken_apart(tmp_path: Path) -> None:
    """The view is another operand of the same line."""
    code = PAIR.replace("PART", "self.taken").replace(
        "net = Net()", "net = Net()\nbase = torch.ones(2, 2) * net.fc.bias"
    )
    code = code.replace("loss = net(", "net.taken, _ = base.unbind()\nloss = net(")
    code = code.replace("loss.backward()", "base.mul_(2)\nloss.backward()")
    found = observe(tmp_path, HEAD + code)
    assert found.slugs[0] == "inplace-on-view"
    assert "`a` is one of several views" not in found.said
    assert not found.found[0].finding.remedies


def test_what_the_pieces_are_of_may_be_to_see_the_write(tmp_path: Path) -> None:
    code = """\
import torch
from torch import nn
layer, skip = nn.Linear(3, 4), nn.Linear(4, 2)
h = layer(torch.randn(5, 3))
value, gate = h.chunk(2, dim=1)
value.mul_(layer.weight.sum())
out = value * gate{}
out.sum().backward()
"""
    read = observe(tmp_path / "read", code.format(" + skip(h)")).found[0].finding.remedies
    left = observe(tmp_path / "left", code.format("")).found[0].finding.remedies
    assert "`h` is read after the write" in read[0].open and not left[0].open
