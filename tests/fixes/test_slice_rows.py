"""A loop that moves a tensor on slice by slice: a list of slices where it fits, else the value before a clone."""

from __future__ import annotations

import pytest
from marked import fixed

JOINED = [
    (
        "for i in range(1, y.shape[2]):\n    «y[:, :, i:i + 1, :].add_(f(y[:, :, i - 1:i, :]))»\nprint(y)\n",
        "rows = list(y.split(1, dim=2))\nfor i in range(1, y.shape[2]):\n    rows[i] = rows[i].add(f(rows[i - 1]))\n"
        "y = torch.cat(rows, dim=2)\nprint(y)\n",
    ),
    (
        "for i in reversed(range(n)):\n    «y[:, i] += f(y[:, i + 1]) or g»\nprint(y)\n",
        "rows = list(y.unbind(dim=1))\nfor i in reversed(range(n)):\n    rows[i] = rows[i] + (f(rows[i + 1]) or g)\n"
        "y = torch.stack(rows, dim=1)\nprint(y)\n",
    ),
    (
        "for t in range(1, n):\n    a = y[t - 1]\n    if a.sum() > 0:\n        «y[t] *= torch.sigmoid(a)»\nprint(y)\n",
        "rows = list(y.unbind())\nfor t in range(1, n):\n    a = rows[t - 1]\n    if a.sum() > 0:\n"
        "        rows[t] = rows[t] * torch.sigmoid(a)\ny = torch.stack(rows)\nprint(y)\n",
    ),
    (
        "for t in range(1, n):\n    «y[..., t] -= f(y[..., 0])»\nprint(y)\n",
        "rows = list(y.unbind(dim=-1))\nfor t in range(1, n):\n    rows[t] = rows[t] - f(rows[0])\n"
        "y = torch.stack(rows, dim=-1)\nprint(y)\n",
    ),
]


@pytest.mark.parametrize(("source", "wanted"), JOINED)
def test_joins_the_slices(source, wanted):
    assert fixed("out_of_place", "import torch\n" + source) == "import torch\n" + wanted


BEFORE_A_CLONE = [
    # another use of the whole tensor, a slice of more than one, no counter, other dimensions, a nested function
    "for t in range(1, n):\n    {new} = f(y[t - 1])\n{clone}    {write}\n    g(y)\nprint(y)\n",
    "for t in range(1, n):\n    {new} = f(y[t - 1:t + 1])\n{clone}    {write}\nprint(y)\n",
    "for t in some:\n    {new} = f(y[t - 1])\n{clone}    {write}\nprint(y)\n",
    "for t in range(1, n):\n    {new} = f(y[:, t - 1])\n{clone}    {write}\nprint(y)\n",
    "for t in range(1, n):\n    {new} = f(y[t - 1], key=lambda k: y[t])\n{clone}    {write}\nprint(y)\n",
]


@pytest.mark.parametrize("form", BEFORE_A_CLONE)
def test_the_value_comes_before_a_clone_where_the_list_does_not_fit(form):
    lines = form.splitlines(keepends=True)
    value = next(line for line in lines if "{new}" in line).strip().removeprefix("{new} = ")
    sick = "".join(line for line in lines if "{new}" not in line)
    sick = sick.format(clone="", write=f"«y[t] += {value}»")
    right = form.format(new="new", clone="    y = y.clone()\n", write="y[t] += new")
    assert fixed("out_of_place", sick) == right


def test_a_method_with_its_value_before_a_clone():
    source = "while more():\n    «y[1:].mul_(f(y[:-1]))»\nprint(y)\n"
    wanted = "while more():\n    new = f(y[:-1])\n    y = y.clone()\n    y[1:].mul_(new)\nprint(y)\n"
    assert fixed("out_of_place", source) == wanted
