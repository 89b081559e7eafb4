"""In-place writes become new tensors."""

from __future__ import annotations

import pytest
from marked import fixed

from graphdoc.fixes.fix_kind import CannotFix

REFUSED: list[tuple[str, dict[str, object], str]] = [
    ("«x = x + y»\n", {}, "nothing is written"),
    ("«f(x).y += 1»\n", {}, "twice"),
    ("«x.relu()»\n", {}, "does not write"),
    ("«x.requires_grad_()»\n", {}, "no element"),
    ("«nn.ReLU(inplace=False)»\n", {}, "does not write"),
    ("x = f(y)\nx = x.clone()\n«x[0]» = 1\n", {}, "already cloned"),
    # the caller wants the write
    ("def fill(x):\n    «x[0]» = 1\n", {}, "called for what it writes"),
    ("def f():\n    «table[0]» = 1\n", {}, "enclosing scope"),
    ("def f():\n    «table.add_(1)»\n", {}, "enclosing scope"),
    ("y = a and «x.add_(1)»\nz = x\n", {}, "used again"),
    ("«nets()[0].weight.data.zero_()»\n", {}, "no name"),
    # what is computed in the same expression has no name, and the library is none
    ("import torch\ny = «torch.exp(x).clamp_(max=2)»\n", {"mode": "clone"}, "no name"),
    ("import torch\ny = «torch.relu(x).normal_()»\n", {}, "no name"),
    ("y = «x.exp().zero_()»\n", {}, "no name"),
]


@pytest.mark.parametrize(("source", "args", "reason"), REFUSED)
def test_refuses(source, args, reason):
    with pytest.raises(CannotFix, match=reason):
        fixed("out_of_place", source, **args)


MAPPED = [
    (
        "for i in range(x.shape[1]):\n    «x[:, i]» = x[:, i] * a[i] + b[i]\nprint(x)\n",
        "rows = list(x.unbind(dim=1))\nfor i in range(x.shape[1]):\n    rows[i] = rows[i] * a[i] + b[i]\n"
        "x = torch.stack(rows, dim=1)\nprint(x)\n",
    ),
    (
        "for i in range(len(x)):\n    «x[i]» = (x[i] * x[i - 1])\nprint(x)\n",
        "rows = list(x.unbind())\nfor i in range(len(x)):\n    rows[i] = (rows[i] * rows[i - 1])\n"
        "x = torch.stack(rows)\nprint(x)\n",
    ),
    # not of the slice's shape
    (
        "for i in range(len(x)):\n    «x[i]» = x[i].mean()\nprint(x)\n",
        "for i in range(len(x)):\n    new = x[i].mean()\n    x = x.clone()\n    x[i] = new\nprint(x)\n",
    ),
    ("«x[0]» = y\nprint(x)\n", "x = x.clone()\nx[0] = y\nprint(x)\n"),
]


@pytest.mark.parametrize(("source", "wanted"), MAPPED)
def test_a_slice_that_is_computed_from_the_tensor_itself(source, wanted):
    assert fixed("out_of_place", "import torch\n" + source) == "import torch\n" + wanted


FIXED = [
    # computed in the same expression
    ("y = «x.exp().clamp_(max=2).mul_(3)»\n", {}, "y = x.exp().clamp(max=2).mul(3)\n"),
    ("y = «F.softmax(x, 1).add_(1)»\nprint(x)\n", {}, "y = F.softmax(x, 1).add(1)\nprint(x)\n"),
    # augmented assignment
    ("«x += y»  # why\n", {}, "x = x + y  # why\n"),
    ("«x-=y - z»\n", {}, "x = x - (y - z)\n"),
    ("«x -= (y - z)»\n", {}, "x = x - (y - z)\n"),
    ("«x += a * b»\n", {}, "x = x + a * b\n"),
    ("«x *= a + b»\n", {}, "x = x * (a + b)\n"),
    ("«x **= -2»\n", {}, "x = x ** -2\n"),
    ("«x **= a ** b»\n", {}, "x = x ** a ** b\n"),
    ("«x @= w»\n", {}, "x = x @ w\n"),
    ("«x //= w if a else b»\n", {}, "x = x // (w if a else b)\n"),
    ("«self.h += y»\n", {}, "self.h = self.h + y\n"),
    ("«s['h'] += y»\n", {}, "s['h'] = s['h'] + y\n"),
    ("«s[k] += y»\n", {"container": True}, "s[k] = s[k] + y\n"),
    ("«x[0] += y»\n", {}, "x = x.clone()\nx[0] += y\n"),
    ("if a: «x /= 2»; b()\n", {}, "if a: x = x / 2; b()\n"),
    ("def f(x):\n    «x += 1»\n    return x\n", {}, "def f(x):\n    x = x + 1\n    return x\n"),
    # methods
    ("«x.relu_()»\n", {}, "x = x.relu()\n"),
    ("«x.mul_(a)».add_(b, alpha=c)\n", {}, "x = x.mul(a).add(b, alpha=c)\n"),
    ("«x.mul_(a).add_(b, alpha=c)»\n", {}, "x = x.mul(a).add(b, alpha=c)\n"),
    ("def f(x):\n    return «x.relu_()»\n", {}, "def f(x):\n    return x.relu()\n"),
    ("y = «x.relu_()».sum()\n", {}, "y = x.relu().sum()\n"),
    ("x = «x.relu_()»\nprint(x)\n", {}, "x = x.relu()\nprint(x)\n"),
    ("y = «x.relu_()»\nprint(x)\n", {}, "y = x = x.relu()\nprint(x)\n"),
    ("y = f(«x.relu_()»)\nprint(x)\n", {}, "x = x.relu()\ny = f(x)\nprint(x)\n"),
    ("y = (\n    «x\n    .mul_(2)\n    .add_(1)»\n)\n", {}, "y = (\n    x\n    .mul(2)\n    .add(1)\n)\n"),
    ("«self.m.mul_(d).add_(x)»\n", {}, "self.m = self.m.mul(d).add(x)\n"),
    ("import torch\n«x.zero_()»\n", {}, "import torch\nx = torch.zeros_like(x)\n"),
    ("import torch\n«x.fill_(3.0)»\n", {}, "import torch\nx = torch.full_like(x, 3.0)\n"),
    ("«x.copy_(a + b)»\n", {}, "x = (a + b).clone()\n"),
    ("«x.normal_()»\n", {}, "x = x.clone()\nx.normal_()\n"),
    ("«x[:, 0].add_(1)»\n", {}, "x = x.clone()\nx[:, 0].add_(1)\n"),
    ("«x.view(-1).add_(1)»\n", {}, "x = x.clone()\nx.view(-1).add_(1)\n"),
    ("«x.relu_()»\n", {"mode": "clone"}, "x = x.clone()\nx.relu_()\n"),
    # functions and flags
    ("import torch\n«torch.relu_(x)»\n", {}, "import torch\nx = torch.relu(x)\n"),
    ("import torch\ny = «torch.relu_(x)»\n", {}, "import torch\ny = torch.relu(x)\n"),
    ("y = «F.relu(x, inplace=True)»\n", {}, "y = F.relu(x)\n"),
    ("«F.relu(x, True)»\n", {}, "x = F.relu(x)\n"),
    ("m = «nn.ReLU(inplace=True)»\n", {}, "m = nn.ReLU()\n"),
    ("m = «nn.LeakyReLU(0.2, True)»\n", {}, "m = nn.LeakyReLU(0.2)\n"),
    ("m = «nn.Dropout(p=0.2, inplace=True)»\n", {}, "m = nn.Dropout(p=0.2)\n"),
    ("m = «partial(nn.ReLU, inplace=True)»\n", {}, "m = partial(nn.ReLU)\n"),
    # a wrapper of one's own may have another default
    ("m = «Block(inplace=True)»\n", {}, "m = Block(inplace=False)\n"),
    ("«torch.add(a, b, out=c)»\n", {}, "c = torch.add(a, b)\n"),
    # slices and masks
    ("y = f(x)\n«y[..., 1:2]» = v\n", {}, "y = f(x)\ny = y.clone()\ny[..., 1:2] = v\n"),
    ("y[0] = a\ny[1] = b\n«y[2]» = c  # last\n", {}, "y = y.clone()\ny[0] = a\ny[1] = b\ny[2] = c  # last\n"),
    # the second write reads what the first wrote: each needs its own copy
    ("y[0] = a\n«y[1]» = y[0] * 2\n", {}, "y[0] = a\nnew = y[0] * 2\ny = y.clone()\ny[1] = new\n"),
    ("«self.buf[i]» = v\n", {}, "self.buf = self.buf.clone()\nself.buf[i] = v\n"),
    ("«d['k'][:, 0]» = v\n", {}, "d['k'] = d['k'].clone()\nd['k'][:, 0] = v\n"),
    ("import torch\n«y[mask]» = 0.0\n", {}, "import torch\ny = y.clone()\ny[mask] = 0.0\n"),
    (
        "import torch\nout = torch.zeros(T, 3)\n"
        "for t in range(T):\n    h = f(h)\n    «out[t]» = h  # row\nprint(out)\n",
        {},
        "import torch\nout = torch.zeros(T, 3)\nrows = list(out.unbind())\n"
        "for t in range(T):\n    h = f(h)\n    rows[t] = h  # row\nout = torch.stack(rows)\nprint(out)\n",
    ),
    (
        "import torch\no = torch.zeros(3, T)\no[..., 0] = s\n"
        "for t in range(1, T):\n    «o[..., t]» = o[..., t - 1] * 2\n",
        {},
        "import torch\no = torch.zeros(3, T)\no[..., 0] = s\nrows = list(o.unbind(dim=-1))\n"
        "for t in range(1, T):\n    rows[t] = rows[t - 1] * 2\no = torch.stack(rows, dim=-1)\n",
    ),
    # an item of a list is a tensor of its own
    (
        "rows = [f(x) for x in xs]\nfor i in range(3):\n    «rows[i - 1] += g(rows[i])»\nprint(rows)\n",
        {},
        "rows = [f(x) for x in xs]\nfor i in range(3):\n    rows[i - 1] = rows[i - 1] + g(rows[i])\nprint(rows)\n",
    ),
    (
        "rows = list(xs)\n«rows[0].add_(1)»\nprint(rows)\n",
        {},
        "rows = list(xs)\nrows[0] = rows[0].add(1)\nprint(rows)\n",
    ),
    (
        "rows = [f(x)] * 2\n«rows[0] += 1»\nprint(rows)\n",
        {"mode": "clone"},
        "rows = [f(x)] * 2\nrows[0] = rows[0].clone()\nrows[0] += 1\nprint(rows)\n",
    ),
    # of a name that is bound in another way too nothing is known
    (
        "rows = [f(x) for x in xs]\nrows = torch.stack(rows)\n«rows[0] += 1»\nprint(rows)\n",
        {},
        "rows = [f(x) for x in xs]\nrows = torch.stack(rows)\nrows = rows.clone()\nrows[0] += 1\nprint(rows)\n",
    ),
    # not plain: a use of the whole tensor
    (
        "o = torch.zeros(T)\nfor t in range(T):\n    «o[t]» = f(o)\n",
        {},
        "o = torch.zeros(T)\nfor t in range(T):\n    new = f(o)\n    o = o.clone()\n    o[t] = new\n",
    ),
    (
        "o = torch.zeros(T)\nwhile t:\n\tif t: «o[t]» = f(t)\n",
        {},
        "o = torch.zeros(T)\nwhile t:\n\tif t: o = o.clone(); o[t] = f(t)\n",
    ),
]


@pytest.mark.parametrize(("source", "args", "expected"), FIXED)
def test_fixes(source, args, expected):
    assert fixed("out_of_place", source, **args) == expected


def test_every_method_of_torch_is_known():
    """Each in-place method of Tensor has a counterpart, or stands in one of the tables."""
    import torch

    from graphdoc.source.expressions import NOT_A_WRITE, REPLACEMENTS, WITHOUT_COUNTERPART

    known = set(REPLACEMENTS) | NOT_A_WRITE | WITHOUT_COUNTERPART
    names = {n for n in dir(torch.Tensor) if n.endswith("_") and not n.startswith("_") and not n.endswith("__")}
    assert {n for n in names - known if not hasattr(torch.Tensor, n[:-1])} == set()


def test_positions_are_those_of_torch():
    import inspect

    import torch.nn.functional as F
    from torch import nn

    from graphdoc.source.expressions import POSITIONS

    for name, position in POSITIONS.items():
        signature = inspect.signature(getattr(nn, name) if hasattr(nn, name) else getattr(F, name))
        assert list(signature.parameters).index("inplace") == position, name


VIEWED = "    slots = h[:, 1:]\n    {write}\n    out.append(h)\n"


@pytest.mark.parametrize("write", ["«slots += f(x)»", "«slots[0] = x»", "«slots.mul_(x)»"])
def test_the_whole_is_cloned_before_a_part_of_it_is_taken(write):
    source = "for x in xs:\n    w = f(h)\n" + VIEWED
    plain = write.strip("«»")
    wanted = source.replace("    slots =", "    h = h.clone()\n    slots =").format(write=plain)
    assert fixed("out_of_place", source.format(write=write)) == wanted


@pytest.mark.parametrize(
    "source",
    [
        "for x in xs:\n" + VIEWED.format(write="«slots += g(h)»"),
        "for x in xs:\n" + VIEWED.format(write="k = h.sum()\n    «slots += x»"),
        "for slots in h:\n    «slots += 1»\nprint(h)\n",
        "def fill(h):\n    for slots in h:\n        «slots += 1»\n    return h\n",
        "def fill(h, g):\n    for slots, new in zip(h, g):\n        «slots.set_(new)»\n    return h\n",
    ],
)
def test_the_whole_is_not_cloned_where_it_is_read_in_between(source):
    with pytest.raises(CannotFix, match="lost"):
        fixed("out_of_place", source)
