"""Results asked for once, whole, of some, or kept without their graph: grad_of_* and detach_stored."""

from __future__ import annotations

import pytest
from marked import fixed

from graphdoc.fixes.fix_kind import CannotFix

REFUSED = [
    ("grad_of_all", "g = «torch.autograd.grad(y, x)»\n", "single gradient"),
    ("grad_of_all", "for x in xs:\n    g = «torch.autograd.grad(y, x)»[0]\n", "plain loop"),
    ("grad_of_all", "for x in xs:\n    gs.append(«torch.autograd.grad(y, z)»[0])\n", "plain loop"),
    ("grad_of_all", "for x in xs:\n    gs.append(«torch.autograd.grad(y, x)»[0])\n    n += 1\n", "plain loop"),
    ("grad_of_all", "gs = [«torch.autograd.grad(y, x)»[0] for x in xs if x.requires_grad]\n", "not simply"),
    ("grad_of_all", "gs = [«f(y, x)»[0] for x in xs]\n", "no torch.autograd.grad"),
    ("grad_of_whole", "g = «torch.autograd.grad(y, x)»[0]\n", "by a part or a copy"),
    ("grad_of_whole", "g = «torch.autograd.grad(y, x.view(-1))»[0]\n", "by a part or a copy"),
    ("grad_of_whole", "g = «torch.autograd.grad(y, f(x)[:, 0])»[0]\n", "by a part"),
    ("grad_of_whole", "(g,) = «torch.autograd.grad(y, x[:, 0])»\n", "not taken out of the result"),
    ("grad_of_flagged", "g = «torch.autograd.grad(y)»\n", "with its inputs"),
    ("grad_of_flagged", "g = «torch.autograd.grad(y, xs)»[0]\n", "not simply assigned"),
    ("grad_of_flagged", "a, b = «torch.autograd.grad(y, xs)»\n", "not simply assigned"),
    ("grad_of_flagged", "g = «grad(y, [x for x in xs if x.requires_grad])»\n", "chosen already"),
    ("detach_stored", "self.x = «f(y)»\n", "outside of a function"),
    ("detach_stored", "def f(self):\n    x = «g()»\n", "not stored in an attribute"),
    ("detach_stored", "def f(self):\n    self.x, y = «g()»\n", "not stored in an attribute"),
    ("detach_stored", "def f(self):\n    self.x = «g().detach()»\n", "already"),
    ("detach_stored", "def f(self):\n    if a:\n        self.x = «g()»\n    return self.x\n", "another branch"),
]


@pytest.mark.parametrize(("kind", "source", "reason"), REFUSED)
def test_refuses(kind: str, source: str, reason: str) -> None:
    with pytest.raises(CannotFix, match=reason):
        fixed(kind, source)


FIXED = [
    (
        "grad_of_flagged",
        "def f(y, m, each):\n    g = «torch.autograd.grad(y, m.parameters(), create_graph=True)»\n    return g\n",
        "def f(y, m, each):\n    asked = list(m.parameters())\n    g = torch.autograd.grad(y, "
        "[one_asked for one_asked in asked if one_asked.requires_grad], create_graph=True)\n"
        "    found = iter(g)\n"
        "    g = tuple(next(found) if one_asked.requires_grad else None for one_asked in asked)\n    return g\n",
    ),
    (
        "grad_of_whole",
        "u = «torch.autograd.grad(y, x[:, 0:1], torch.ones_like(y), create_graph=True)»[0]  # along\n",
        "u = torch.autograd.grad(y, x, torch.ones_like(y), create_graph=True)[0][:, 0:1]  # along\n",
    ),
    (
        "grad_of_whole",
        "g = «torch.autograd.grad(y, (x)[\n    :, 0,  # first\n])»[0]\n",
        "g = torch.autograd.grad(y, x)[0][\n    :, 0,  # first\n]\n",
    ),
    (
        "grad_of_whole",
        "(g,) = «torch.autograd.grad(y, self.w.clone(), retain_graph=True)»\n",
        "(g,) = torch.autograd.grad(y, self.w, retain_graph=True)\n",
    ),
    (
        "grad_of_whole",
        "g = «torch.autograd.grad(y, x.contiguous()[0])»[0]\n",
        "g = torch.autograd.grad(y, x)[0][0]\n",
    ),
    (
        "grad_of_whole",
        "u = -«grad(outputs=y, inputs=self.x[0])»[0].sum()\n",
        "u = -grad(outputs=y, inputs=self.x)[0][0].sum()\n",
    ),
    (
        "grad_of_all",
        "def f(y, X):\n    grads = []\n    for x in X:\n        grads.append(«torch.autograd.grad(y, x)»[0])  # each\n",
        "def f(y, X):\n    grads = []\n    grads.extend(torch.autograd.grad(y, X))  # each\n",
    ),
    (
        "grad_of_all",
        "gs = [«autograd.grad(y, x, retain_graph=True)»[0] for x in self.inputs]\n",
        "gs = list(autograd.grad(y, self.inputs))\n",
    ),
    (
        "grad_of_all",
        "gs = [«grad(y, x, v, create_graph=True)»[0] for x in xs]\n",
        "gs = list(grad(y, xs, v, create_graph=True))\n",
    ),
    # What is read before the assignment is the previous result and stays.
    (
        "detach_stored",
        "class A:\n    def forward(self, x):\n        old = self.map\n        self.map = «torch.sigmoid(x)»  # kept\n"
        "        return x * self.map + old\n",
        "class A:\n    def forward(self, x):\n        old = self.map\n        map = torch.sigmoid(x)  # kept\n"
        "        self.map = map.detach()\n        return x * map + old\n",
    ),
    (
        "detach_stored",
        "def f(self, out):\n    self.out = «g(out)»\n    return out\n",
        "def f(self, out):\n    out_ = g(out)\n    self.out = out_.detach()\n    return out\n",
    ),
]


@pytest.mark.parametrize(("kind", "source", "expected"), FIXED)
def test_fixes(kind: str, source: str, expected: str) -> None:
    assert fixed(kind, source) == expected
