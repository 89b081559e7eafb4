"""Pieces that a loop wrote into are computed anew and joined; what would be lost is refused."""

from __future__ import annotations

import pytest
from marked import fixed

from graphdoc.fixes.fix_kind import CannotFix

# What binds the name anew only for itself. Each has a look-alike below that is rewritten.
LOST = [
    ("for t, m in zip(image, mean):\n    «t.sub_(m)»\nprint(image)\n", "a loop's own name"),
    ("for t in image:\n    «t += 1»\nprint(image)\n", "a loop's own name"),
    ("for t in image:\n    «F.relu(t, inplace=True)»\n", "a loop's own name"),
    ("for t in image:\n    «t[0]» = 1\n", "a loop's own name"),
    ("for p in net.parameters():\n    «p.clamp_(0)»\n", "a loop's own name"),
    ("a = self.table[0]\n«a *= 2»\n", "a view of self.table"),
    ("def f(x):\n    «x.add_(1)»\n    return 1\n", "called for what it writes"),
]


@pytest.mark.parametrize(("source", "reason"), LOST)
def test_a_result_that_nothing_reads_is_refused(source, reason):
    with pytest.raises(CannotFix, match=reason):
        fixed("out_of_place", source)


KEPT = [
    ("for t in image:\n    «t += 1»\n    out.append(t)\n", "    t = t + 1\n"),
    ("for t in image:\n    for k in range(2):\n        t = t * k\n        «t += 1»\n", "        t = t + 1\n"),
    ("a, b = x.chunk(2)\n«a.mul_(2)»\nprint(a, b)\n", "a = a.mul(2)\n"),
    ("x = x.view(-1)\n«x += 1»\nprint(x)\n", "x = x + 1\n"),
    ("x = self.net(y)\n«x += 1»\n", "x = x + 1\n"),
    ("def f(x):\n    «x.add_(1)»\n    return x.sum()\n", "    x = x.add(1)\n"),
]


VIEWED = [
    ("a, b = x.chunk(2)\n«a.mul_(2)»\nprint(x)\n", "x = x.clone()\na, b = x.chunk(2)\na.mul_(2)\n"),
    (
        "import torch as tt\na = tt.narrow(x, 0, 1, 2)\n«a *= 2»\nprint(x)\n",
        "import torch as tt\nx = x.clone()\n",
    ),
    ("a = torch.narrow(x, 0, 1, 2)\n«a *= 2»\nprint(x)\n", "x = x.clone()\na = torch.narrow(x, 0, 1, 2)\na *= 2\n"),
]


@pytest.mark.parametrize(("source", "start"), VIEWED)
def test_what_is_read_after_a_write_through_its_view_is_cloned_before_the_view(source, start):
    assert fixed("out_of_place", source).startswith(start)


@pytest.mark.parametrize(("source", "line"), KEPT)
def test_a_result_that_is_read_is_no_loss(source, line):
    assert line in fixed("out_of_place", source)


TORCH = "import torch\n"
JOINED = [
    (
        "for t, m in zip(image, mean):\n    «t.sub_(m).div_(2)»\nprint(image)\n",
        "image = torch.stack([t.sub(m).div(2) for t, m in zip(image, mean)])\nprint(image)\n",
    ),
    (
        "for row in x:\n    «row /= row.norm()»\nx.sum()\n",
        "x = torch.stack([row / row.norm() for row in x])\nx.sum()\n",
    ),
    (
        "for i, (t, m) in enumerate(zip(self.x, ms)):\n    «t *= m + i»\n",
        "self.x = torch.stack([t * (m + i) for i, (t, m) in enumerate(zip(self.x, ms))])\n",
    ),
    (
        "for t in x.unbind(1):\n    «t += 1»\nprint(x)\n",
        "x = torch.stack([t + 1 for t in x.unbind(1)], dim=1)\nprint(x)\n",
    ),
    (
        "for t in torch.chunk(x, 2, dim=-1):\n    «t.tanh_()»\nprint(x)\n",
        "x = torch.cat([t.tanh() for t in torch.chunk(x, 2, dim=-1)], dim=-1)\nprint(x)\n",
    ),
    (
        "for t in x:\n    m = t.mean()\n    if m > 0:\n        «t.sub_(m)»\n    t *= 2  # twice\nprint(x)\n",
        "pieces = []\nfor t in x:\n    m = t.mean()\n    if m > 0:\n        t = t.sub(m)\n    t = t * 2  # twice\n"
        "    pieces.append(t)\nx = torch.stack(pieces)\nprint(x)\n",
    ),
    (
        "for t in x:\n    «t[0]» = 1\nprint(x)\n",
        "pieces = []\nfor t in x:\n    t = t.clone()\n    t[0] = 1\n    pieces.append(t)\nx = torch.stack(pieces)\n"
        "print(x)\n",
    ),
]


@pytest.mark.parametrize(("source", "wanted"), JOINED)
def test_pieces_are_joined(source, wanted):
    assert fixed("join_pieces", TORCH + source) == TORCH + wanted


NOT_JOINED = [
    ("for t in x:\n    if t.sum() > 0:\n        break\n    «t += 1»\nprint(x)\n", "leave out"),
    ("for t in x:\n    «t.sub_(x.mean())»\nprint(x)\n", "while it writes"),
    ("for t in f(y):\n    «t += 1»\n", "no loop over the pieces"),
    ("for k in range(3):\n    «t += 1»\n", "no loop over the pieces"),
    ("for x in xs:\n    for t in x:\n        «t += 1»\nprint(xs)\n", "a loop's own name"),
    ("def f(x):\n    for t in x:\n        «t += 1»\n", "called for what it writes"),
    ("for t in x:\n    for k in range(2):\n        «t += k»\nprint(x)\n", "of their own"),
]


@pytest.mark.parametrize(("source", "reason"), NOT_JOINED)
def test_what_cannot_be_joined_is_refused(source, reason):
    with pytest.raises(CannotFix, match=reason):
        fixed("join_pieces", TORCH + source)


def test_what_an_assignment_writes_is_not_looked_for_in_the_call_on_its_right():
    assert "w = w.clone()\nw[wrong] = new\n" in fixed(
        "out_of_place", "w = torch.ones(3)\n«w[wrong] = torch.max(w)»\nprint(w)\n"
    )
