"""Fixes of one expression: what cuts the chain, leaves, returned gradients, layers and parameters."""

from __future__ import annotations

import pytest
from marked import fixed

from graphdoc.fixes.fix_kind import CannotFix
from graphdoc.fixes.kinds import traits_of

NP = "import numpy as np\nimport torch\n"
RISE = "def rise(a):\n    return np.sort(a)\n"
REFUSED = [
    ("drop_call", NP + "x = torch.tensor(np.median(«y.numpy()», 0))\n", {}, "`np.median` is given an array"),
    ("drop_call", NP + "x = a.rise(«y.detach().cpu().numpy()»)\n", {}, "`a.rise` is given an array"),
    ("drop_call", NP + RISE + "x = torch.from_numpy(rise(«y.numpy()»))\n", {}, "`rise` calls `np.sort`"),
    ("drop_call", NP + RISE + "print(rise(z))\nx = torch.tensor(rise(«y.numpy()»))\n", {}, "`rise` is given an array"),
    ("drop_call", "x = «f(y)»\n", {}, "no call that can be dropped"),
    ("drop_call", "x = z[:, : «n.item()»]\n", {}, "a whole number, or an index"),
    ("drop_call", "n = int(«y.item()»)\n", {}, "a whole number, or an index"),
    ("torch_instead_of_numpy", "import math\nx = «math.log(y, 2)»\n", {}, "torch has no log"),
    ("stack_instead_of_tensor", "import torch\nx = «torch.tensor([a, 0.0])»\n", {}, "plain numbers"),
    ("stack_instead_of_tensor", "import torch\nx = «torch.tensor([])»\n", {}, "empty"),
    ("stack_instead_of_tensor", "x = «torch.Tensor(y)»\n", {"mixed": True}, "plain numbers"),
    ("stack_instead_of_tensor", "x = «torch.tensor(y)»\n", {"mixed": True, "flat": True}, "plain numbers"),
    ("stack_instead_of_tensor", "x = «f([a])»\n", {}, "does not make"),
    (
        "stack_instead_of_tensor",
        "import torch\nx = «torch.tensor([[a], [b, c]])»\n",
        {"flat": True},
        "rows of one length",
    ),
    ("pad_return", "def backward(c, g):\n    «return g, None»\n", {"count": 2}, "no return"),
    ("use_instead", "loss = f(«score»)\n", {"operand": "self.score", "name": "score"}, "is not read there"),
    ("fit_gradient", "def b(c, g):\n    w = None\n    «return g, w»\n", {"index": 1, "steps": ["t()"]}, "may be None"),
    (
        "fit_gradient",
        "def b(c, g):\n    «return g, g * 2»\n",
        {"index": 1, "steps": ["t()"], "product": True},
        "does not tell",
    ),
    ("rewrite", "y = «x.detach()»\n", {"pairs": [["{it}", "x = {it}"]]}, "in another way"),
    ("probability_for_decision", "y = x[«p > 0.5»]\n", {}, "not used as a number"),
    ("probability_for_decision", "y = x[«s.argmax(1)»]\n", {"given": "scores"}, "not used as a number"),
    ("straight_through", "y = [(«a > b»).float() for a in c]\n", {}, "has no name"),
    ("straight_through", "y = («a == b»).float()\n", {}, "which of two"),
    ("probability_for_decision", "y = («p > 3»).float()\n", {}, "no probability"),
    ("probability_for_decision", "y = («p > q»).float()\n", {}, "no probability"),
    ("call_directly", "h = «lean(block, x)»\n", {}, "not written in the call"),
    ("call_directly", "h = «checkpoint(*both)»\n", {}, "not written in the call"),
    ("call_directly", "h = «checkpoint(block, x, context_fn=both)»\n", {}, "a context of its own"),
    ("call_directly", "h = «checkpoint(block, x, **how)»\n", {}, "a context of its own"),
    ("pad_return", "def backward(c, g):\n    «return *g,»\n", {"count": 2}, "cannot be read"),
    ("return_values", "«g = h»\n", {"values": ["g"]}, "no return"),
    ("make_leaf", "x = «torch.randn(3) * 2»\n", {}, "no single tensor"),
    ("to_numpy", "y = «x.detach().numpy()»\n", {}, "already"),
    ("reduce_loss", "«loss.backward(g)»\n", {}, "each element"),
    ("reduce_loss", "«torch.autograd.grad(u, x, g)»\n", {}, "weighs the elements"),
    ("reduce_loss", "«torch.autograd.backward(u, g)»\n", {}, "weighs the elements"),
    ("reduce_loss", "«grad(*both)»\n", {}, "not written"),
    ("set_keyword", "g = «torch.autograd.grad(a, b, **kept)»\n", {"name": "retain_graph"}, "by `\\*\\*` as well"),
    ("rsample", "a = «d.rsample()»\n", {}, "no sample"),
    ("rsample", "a = «torch.normal(0.0, 1.0, (2,))»\n", {}, "no sample"),
]


@pytest.mark.parametrize(("kind", "source", "args", "reason"), REFUSED)
def test_refuses(kind, source, args, reason):
    with pytest.raises(CannotFix, match=reason):
        fixed(kind, source, **args)


T = "import torch\n"
FIXED = [
    ("drop_call", "x = «y.item()» * 2\n", {}, "x = y * 2\n"),
    ("drop_call", "x = «(a + b).item()» * 2\n", {}, "x = (a + b) * 2\n"),
    ("drop_call", "x = «y.data»\n", {}, "x = y\n"),
    (
        "drop_call",
        "import torch\nx = torch.linspace(0, 2 * «y.item()», steps=n, device=d)\n",
        {},
        "import torch\nx = 0 + (2 * y - 0) * torch.linspace(0, 1, steps=n, device=d)\n",
    ),
    (
        "drop_call",
        "import torch\nx = 3 * torch.full((n,), «float(y)», dtype=d)\n",
        {},
        "import torch\nx = 3 * (y * torch.ones((n,), dtype=d))\n",
    ),
    ("drop_call", "x = own.linspace(0, «y.item()», n)\n", {}, "x = own.linspace(0, y, n)\n"),
    (
        "torch_instead_of_numpy",
        "import math\nimport torch\nx = «math.exp(-y)»\n",
        {},
        "import math\nimport torch\nx = torch.exp(-y)\n",
    ),
    ("drop_call", "x = «y.detach().cpu().numpy()».sum()\n", {}, "x = y.sum()\n"),
    ("drop_call", "x = «y.detach()».cpu().numpy()\n", {}, "x = y\n"),
    ("drop_call", "x = max(«y.numpy()»)\n", {}, "x = max(y)\n"),
    ("drop_call", "x = rise(«y.tolist()»)\n", {}, "x = rise(y)\n"),
    ("drop_call", "x = «float(a + b)» * 2\n", {}, "x = (a + b) * 2\n"),
    ("drop_call", "x = «float(a + b)»\n", {}, "x = a + b\n"),
    ("drop_call", "x = torch.tensor(«y.item()», dtype=d)\n", {}, "x = y\n"),
    (
        "drop_call",
        "import torch\nx = torch.tensor([«part(o).item()» for o in outs], requires_grad=True).sum()\n",
        {},
        "import torch\nx = torch.stack([part(o) for o in outs]).sum()\n",
    ),
    (
        "drop_call",
        "import torch\nx = torch.tensor([«a.item()», b.item()]).mean()\n",
        {},
        "import torch\nx = torch.stack([a, b]).mean()\n",
    ),
    (
        "drop_call",
        "import numpy as np\nimport torch\nx = torch.from_numpy(np.exp(-np.clip(«y.detach()».numpy(), 0, 3)) + 1)\n",
        {},
        "import numpy as np\nimport torch\nx = torch.exp(-torch.clip(y, 0, 3)) + 1\n",
    ),
    (
        "drop_call",
        NP + "def rise(a):\n    b = np.cumsum(a, axis=0).copy()\n    b[1:] -= b[:-1].mean()\n    return b\n"
        "x = torch.from_numpy(rise(«y.detach().numpy()»))\n",
        {},
        NP + "def rise(a):\n    b = torch.cumsum(a, axis=0).clone()\n    b[1:] -= b[:-1].mean()\n    return b\n"
        "x = rise(y)\n",
    ),
    ("drop_call", "«Variable(loss, requires_grad=True)».backward()\n", {}, "loss.backward()\n"),
    ("drop_call", "loss = f(x)\nloss = «Variable(loss, requires_grad=True)»\n", {}, "loss = f(x)\n"),
    (
        "drop_call",
        "x = «Variable(x, requires_grad=True)»\ng = x.grad\n",
        {},
        "x = x\nif x.requires_grad:\n    x.retain_grad()\ng = x.grad\n",
    ),
    (
        "drop_call",
        "def f(ids):\n    h = «torch.tensor(e(ids).tolist(), requires_grad=True)»\n    g(h).backward()\n"
        "    return h.grad\n",
        {},
        "def f(ids):\n    h = e(ids)\n    if h.requires_grad:\n        h.retain_grad()\n    g(h).backward()\n"
        "    return h.grad\n",
    ),
    (
        "drop_call",
        "h = «torch.tensor(e(ids).tolist(), requires_grad=True)»\ng(h).backward()\nprint(w.grad)\n",
        {},
        "h = e(ids)\ng(h).backward()\nprint(w.grad)\n",
    ),
    ("drop_call", "a()\n«loss.requires_grad = True»\nb()\n", {}, "a()\nb()\n"),
    ("drop_call", "a()\n«loss.requires_grad_()»\nb()\n", {}, "a()\nb()\n"),
    ("stack_instead_of_tensor", T + "x = «torch.tensor([a, b], dtype=d)»\n", {}, T + "x = torch.stack([a, b])\n"),
    (
        "stack_instead_of_tensor",
        T + "x = «torch.tensor(y, dtype=d, requires_grad=True)»\n",
        {"mixed": True},
        T + "x = torch.stack([torch.as_tensor(entry, dtype=d) for entry in y])\n",
    ),
    (
        "stack_instead_of_tensor",
        "from torch import stack, tensor\nx = «tensor([a, b.item(), -1])»\n",
        {"mixed": True},
        "from torch import stack, tensor\nimport torch\nx = stack([torch.as_tensor(entry) for entry in [a, b, -1]])\n",
    ),
    (
        "stack_instead_of_tensor",
        "import torch as th\nx = «th.FloatTensor([[a, b.item()], [c, float(d)]])»\n",
        {},
        "import torch as th\nx = th.stack([th.stack([a, b]), th.stack([c, d])])\n",
    ),
    (
        "stack_instead_of_tensor",
        T + "x = «torch.tensor([l.item() for l in ls])»\n",
        {},
        T + "x = torch.stack([l for l in ls])\n",
    ),
    (
        "stack_instead_of_tensor",
        T + "x = «torch.tensor(y, requires_grad=True)» + 1\n",
        {"structure": "list", "flat": True},
        T + "x = torch.stack(y).reshape(-1) + 1\n",
    ),
    ("stack_instead_of_tensor", T + "x = «torch.tensor(y)» + 1\n", {}, T + "x = y + 1\n"),
    ("stack_instead_of_tensor", T + "x = «torch.tensor(ys)»\n", {"structure": "list"}, T + "x = torch.stack(ys)\n"),
    (
        "stack_instead_of_tensor",
        T + "x = «torch.tensor([[a], [b]])»\n",
        {"flat": True},
        T + "x = torch.stack([torch.stack([a]), torch.stack([b])]).reshape(2, -1)\n",
    ),
    (
        "pad_return",
        "def backward(c, g):\n    «return g * 2»  # c\n",
        {"count": 3},
        "def backward(c, g):\n    return g * 2, None, None  # c\n",
    ),
    (
        "use_instead",
        "self.loss = f(«self.score») - self.score.mean()\n",
        {"operand": "self.score", "name": "score"},
        "self.loss = f(score) - score.mean()\n",
    ),
    (
        "fit_gradient",
        "def b(c, g):\n    «return g, g * 2»\n",
        {"index": 1, "steps": ["squeeze(1)"]},
        "def b(c, g):\n    return g, (g * 2).squeeze(1)\n",
    ),
    (
        "fit_gradient",
        "def b(c, g):\n    w = x.t() @ g\n    «return g, w»\n",
        {"index": 1, "steps": ["t()"], "product": True},
        "def b(c, g):\n    w = x.t() @ g\n    return g, w.t()\n",
    ),
    (
        "fit_gradient",
        "def b(c, g):\n    «return g, -(x.t() @ g) / len(g) * c.mask»\n",
        {"index": 1, "steps": ["t()"], "product": True},
        "def b(c, g):\n    return g, (-(x.t() @ g) / len(g) * c.mask).t()\n",
    ),
    ("call_directly", "h = «cp.checkpoint(self.block, x, y=2)»\n", {}, "h = self.block(x, y=2)\n"),
    (
        "probability_for_decision",
        "y = 1 - «torch.argmax(s, -1)».float()\n",
        {"given": "scores"},
        "y = 1 - s.softmax(-1).select(-1, 1)\n",
    ),
    (
        "probability_for_decision",
        "y = f(«p.argmax(dim=1, keepdim=True)».to(z))\n",
        {"given": "probabilities"},
        "y = f(p.narrow(1, 1, 1))\n",
    ),
    (
        "straight_through",
        "import torch\ny = x * («self.level <= x»)\n",
        {},
        "import torch\nsoft = torch.sigmoid(x - self.level)\ny = x * ((self.level <= x) + (soft - soft.detach()))\n",
    ),
    ("probability_for_decision", "n = («p < 0.5»).float().sum()\n", {}, "n = (1 - p).sum()\n"),
    ("probability_for_decision", "n = «torch.ge(f(p), 0.3)» * y\n", {}, "n = f(p) * y\n"),
    ("probability_for_decision", "n = y * («0.5 >= p»)\n", {}, "n = y * (1 - p)\n"),
    (
        "return_values",
        "def b(c, g):\n    «return (None, g)»  # c\n",
        {"values": ["g", "None"]},
        "def b(c, g):\n    return g, None  # c\n",
    ),
    ("return_values", "def b(c, g):\n    «return»\n", {"values": ["g"]}, "def b(c, g):\n    return g\n"),
    (
        "return_values",
        "«def b(c, g)»:\n    h = g\n    if c:\n        return g, h\n\n\nx = 1\n",
        {"values": ["g", "h"]},
        "def b(c, g):\n    h = g\n    if c:\n        return g, h\n    return g, h\n\n\nx = 1\n",
    ),
    ("pad_return", "def b(c, g):\n    «return (g, (g))»\n", {"count": 3}, "def b(c, g):\n    return (g, (g), None)\n"),
    (
        "pad_return",
        "«def b(c, g)»:\n    if g: return g\n    return g,\n",
        {"count": 2},
        "def b(c, g):\n    if g: return g, None\n    return g, None,\n",
    ),
    (
        "make_leaf",
        "w = «torch.randn(3, requires_grad=True) * 2»\n",
        {},
        "w = (torch.randn(3) * 2).requires_grad_(True)\n",
    ),
    (
        "make_leaf",
        "w = «torch.randn(3, requires_grad=True).to(d)»\n",
        {},
        "w = torch.randn(3).to(d).requires_grad_(True)\n",
    ),
    ("make_leaf", "w = «torch.randn(3).requires_grad_() / 2»\n", {}, "w = (torch.randn(3) / 2).requires_grad_(True)\n"),
    ("make_leaf", "w = «nn.Parameter(torch.ones(3)).to(d)»\n", {}, "w = nn.Parameter(torch.ones(3).to(d))\n"),
    ("make_leaf", "w = «nn.Parameter(a + b) * c»\n", {}, "w = nn.Parameter((a + b) * c)\n"),
    ("to_numpy", "y = «x.numpy()»\n", {}, "y = x.detach().cpu().numpy()\n"),
    ("to_numpy", "y = «x.cpu().numpy()»\n", {}, "y = x.detach().cpu().numpy()\n"),
    ("to_numpy", "y = «np.asarray(a + b)»\n", {}, "y = np.asarray((a + b).detach().cpu().numpy())\n"),
    ("to_numpy", "plot(«loss»)\n", {}, "plot(loss.detach().cpu().numpy())\n"),
    ("reduce_loss", "«(a - b).backward()»\n", {}, "(a - b).mean().backward()\n"),
    ("rewrite", "loss = «torch.zeros(())»\n", {"pairs": [["{_}", "out.sum() * 0.0"]]}, "loss = out.sum() * 0.0\n"),
    (
        "rewrite",
        "loss = «torch.zeros(())» / n\n",
        {"pairs": [["{_}", "out.sum() * 0.0"]]},
        "loss = out.sum() * 0.0 / n\n",
    ),
    ("rewrite", "loss = «torch.zeros(())»\n", {"pairs": [["{_}", "sum(terms) * 0.0"]]}, "loss = sum(terms) * 0.0\n"),
    ("reduce_loss", "«loss.backward()»\n", {"method": "sum"}, "loss.sum().backward()\n"),
    ("reduce_loss", "(d,) = «torch.autograd.grad(u, x)»\n", {}, "(d,) = torch.autograd.grad(u.mean(), x)\n"),
    ("reduce_loss", "d = «grad(outputs=a * b, inputs=x)»[0]\n", {}, "d = grad(outputs=(a * b).mean(), inputs=x)[0]\n"),
    ("reduce_loss", "«torch.autograd.backward([a, b])»\n", {}, "torch.autograd.backward([a.mean(), b.mean()])\n"),
    (
        "set_keyword",
        "g = «torch.autograd.grad(a, b)»\n",
        {"name": "retain_graph"},
        "g = torch.autograd.grad(a, b, retain_graph=True)\n",
    ),
    ("rsample", "a = «d.sample((3,))»\n", {}, "a = d.rsample((3,))\n"),
    ("rsample", T + "a = «torch.normal(m, s)»\n", {}, T + "a = torch.distributions.Normal(m, s).rsample()\n"),
]


@pytest.mark.parametrize(("kind", "source", "args", "expected"), FIXED)
def test_fixes(kind, source, args, expected):
    assert fixed(kind, source, **args) == expected


def test_what_joins_tensors_keeps_the_loss_and_promises_no_other_number():
    told = traits_of("stack_instead_of_tensor", {})
    assert told.keeps_loss and not told.keeps_numbers
