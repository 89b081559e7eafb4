"""Fixes around no_grad: add it, exchange it, take it away."""

# ruff: noqa: E501  (a program and its fixed version are read side by side)

from __future__ import annotations

import pytest
from marked import fixed

from graphdoc.fixes.fix_kind import CannotFix

REFUSED = [
    ("no_grad_block", "with torch.no_grad():\n    «x = f(y)»\n", {}, "already"),
    ("no_grad_block", "if a:\n    «x = 1»\n«y = 2»\n", {"last": "@1"}, "one block"),
    ("no_grad_decorator", "@torch.no_grad()\ndef f():\n    «g()»\n", {}, "already"),
    ("no_grad_decorator", "def f():\n    yield «g()»\n", {}, "generator"),
    ("no_grad_decorator", "«g()»\n", {}, "no function"),
    ("under_no_grad_update", "with th.no_grad():\n    «w -= g»\n", {}, "already"),
    ("swap_switch", "@«torch.no_grad()»\ndef f(): pass\n", {}, "no_grad already"),
    ("swap_switch", "@staticmethod\ndef f():\n    «g()»\n", {}, "no "),
    ("swap_switch", "with «torch.inference_mode(False)»:\n    pass\n", {}, "switched off"),
    ("swap_switch", "«g()»\n", {}, "no "),
    ("remove_switch", "@a\ndef f():\n    «g()»\n", {}, "no "),
    ("remove_switch", "with «open(p)» as f, g():\n    f.read()\n", {}, "uses"),
    ("remove_switch", "with f():\n    «g()»\n", {}, "no "),
    ("enable_grad_block", "with torch.enable_grad():\n    x = «f()»\n", {}, "already"),
    ("enable_grad_block", "while «f()» > 1:\n    pass\n", {}, "head of a block"),
    ("sdpa_math", "with sdpa_kernel(SDPBackend.MATH):\n    «y = net(x)»\n", {}, "already"),
]


@pytest.mark.parametrize(("kind", "source", "args", "reason"), REFUSED)
def test_refuses(kind, source, args, reason):
    with pytest.raises(CannotFix, match=reason):
        fixed(kind, source, **args)


T = "import torch\n"
FIXED = [
    ("no_grad_block", T + "y = «f(x)»  # c\n", {}, T + "with torch.no_grad():\n    y = f(x)  # c\n"),
    ("no_grad_block", T + "y = «f(x)»", {}, T + "with torch.no_grad():\n    y = f(x)"),
    (
        "no_grad_block",
        T + "def f():\n\t«a = 1»\n\t# between\n\n\tb = '''\n  text'''\n\t«c = (\n\t\t3)»\n\td = 4\n",
        {"last": "@1"},
        T
        + "def f():\n\twith torch.no_grad():\n\t\ta = 1\n\t\t# between\n\n\t\tb = '''\n  text'''\n\t\tc = (\n\t\t\t3)\n\td = 4\n",
    ),
    ("no_grad_block", T + "if a: «y = 1»  # c\n", {}, T + "if a:\n    with torch.no_grad():\n        y = 1  # c\n"),
    (
        "no_grad_block",
        T + "if a:\r\n  b(); «y = 1»; c()\r\n",
        {},
        T + "if a:\r\n  b()\r\n  with torch.no_grad():\r\n    y = 1\r\n  c()\r\n",
    ),
    (
        "enable_grad_block",
        T + "if c: x = «c()» if c else None\n",
        {},
        T + "if c:\n    with torch.enable_grad():\n        x = c() if c else None\n",
    ),
    ("no_grad_block", "«x = y»\n", {}, "import torch\nwith torch.no_grad():\n    x = y\n"),
    (
        "no_grad_decorator",
        "from torch import nn\nimport torch\nclass A:\n  @staticmethod\n  def f():\n    return «g()»\n",
        {},
        "from torch import nn\nimport torch\nclass A:\n  @staticmethod\n  @torch.no_grad()\n  def f():\n    return g()\n",
    ),
    ("under_no_grad_update", T + "«w -= lr * w.grad»\n", {}, T + "with torch.no_grad():\n    w -= lr * w.grad\n"),
    ("under_no_grad_update", T + "«w = w - lr * w.grad»\n", {}, T + "with torch.no_grad():\n    w -= lr * w.grad\n"),
    (
        "under_no_grad_update",
        T + "for w in ws:\n    «w = w - (lr * w.grad)»\n    w.grad.zero_()\n",
        {},
        T + "for w in ws:\n    with torch.no_grad():\n        w -= lr * w.grad\n    w.grad.zero_()\n",
    ),
    ("swap_switch", "@«torch.inference_mode()»  # c\ndef f(): pass\n", {}, "@torch.no_grad()  # c\ndef f(): pass\n"),
    ("swap_switch", "@torch.inference_mode\ndef f():\n    «g()»\n", {}, "@torch.no_grad\ndef f():\n    g()\n"),
    ("swap_switch", "@th.inference_mode(mode=True)\ndef «f»(): pass\n", {}, "@th.no_grad()\ndef f(): pass\n"),
    (
        "swap_switch",
        "from torch import inference_mode, no_grad\nwith a, inference_mode(True):\n    «g()»\n",
        {},
        "from torch import inference_mode, no_grad\nwith a, no_grad():\n    g()\n",
    ),
    ("remove_switch", "@a\n@«torch.no_grad()»\ndef f(): pass\n", {}, "@a\ndef f(): pass\n"),
    (
        "remove_switch",
        "if a:\n    with «torch.no_grad()»:  # off\n        # why\n        x = '''\n        s'''\n\n        y = 1\n    z = 2\n",
        {},
        "if a:\n    # why\n    x = '''\n        s'''\n\n    y = 1\n    z = 2\n",
    ),
    ("remove_switch", "with torch.no_grad(): «x = 1»; y = 2\n", {}, "x = 1; y = 2\n"),
    ("remove_switch", "with a(), «torch.no_grad()»:\n    x\n", {}, "with a():\n    x\n"),
    ("remove_switch", "with «torch.no_grad()», a() as b:\n    x\n", {}, "with a() as b:\n    x\n"),
    ("remove_switch", "@torch.no_grad()\ndef f():\n    «x»\n", {}, "def f():\n    x\n"),
    ("remove_switch", "def f():\n    with torch.no_grad():\n        «x»\n", {}, "def f():\n    x\n"),
    ("remove_switch", "a()\n«torch.set_grad_enabled(False)»\nb()\n", {}, "a()\nb()\n"),
    (
        "sdpa_math",
        T + "y = «net(x)»\n",
        {},
        T + "from torch.nn.attention import SDPBackend, sdpa_kernel\n"
        "with sdpa_kernel(SDPBackend.MATH):\n    y = net(x)\n",
    ),
]


@pytest.mark.parametrize(("kind", "source", "args", "expected"), FIXED)
def test_fixes(kind, source, args, expected):
    assert fixed(kind, source, **args) == expected
