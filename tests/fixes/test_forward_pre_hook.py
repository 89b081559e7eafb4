"""A forward hook becomes a pre-hook only where it needs no output and gives nothing back."""

from __future__ import annotations

import pytest
from marked import fixed

from graphdoc.fixes.fix_kind import CannotFix

REFUSED = [
    ("def h(m, i, o):\n    «o.add_(1)»\n«l.register_forward_hook(h)»\n", "uses o"),
    ("def h(m, i, o):\n    «m.weight.clamp_(0)»\n    return 2 * i[0]\n«l.register_forward_hook(h)»\n", "returns"),
    ("def h(m, i, kw, o):\n    «m.w.clamp_(0)»\n«l.register_forward_hook(h, with_kwargs=True)»\n", "in a way"),
    ("def h(m, i, o, low=0):\n    «m.w.clamp_(low)»\n«l.register_forward_hook(h)»\n", "exactly a module"),
    ("def h(*a):\n    «a[0].w.clamp_(0)»\n«l.register_forward_hook(h)»\n", "exactly a module"),
    ("«w.clamp_(0)»\n«l.register_forward_hook(h)»\n", "no function"),
    ("def h(m, i, o):\n    «m.w.clamp_(0)»\n«l.register_full_backward_hook(h)»\n", "no forward hook"),
]


@pytest.mark.parametrize(("source", "reason"), REFUSED)
def test_refuses(source, reason):
    with pytest.raises(CannotFix, match=reason):
        fixed("forward_pre_hook", source, "hook", places=["@1"])


FIXED = [
    (
        "def h(m, i, o):\n    «m.w.clamp_(0)»\n«l.register_forward_hook(h)»\n",
        "def h(m, i):\n    m.w.clamp_(0)\nl.register_forward_pre_hook(h)\n",
    ),
    (
        "class H:\n    def __call__(self, m, i, o: Tensor) -> None:\n        «m.w.clamp_(0)»\n        return\n"
        "«nn.modules.module.register_module_forward_hook(H())»\n",
        "class H:\n    def __call__(self, m, i) -> None:\n        m.w.clamp_(0)\n        return\n"
        "nn.modules.module.register_module_forward_pre_hook(H())\n",
    ),
    (
        "class H:\n    @staticmethod\n    def keep(m, i, o):\n        «m.w.clamp_(0)»\n"
        "«l.register_forward_hook(H.keep)»\n",
        "class H:\n    @staticmethod\n    def keep(m, i):\n        m.w.clamp_(0)\n"
        "l.register_forward_pre_hook(H.keep)\n",
    ),
]


@pytest.mark.parametrize(("source", "wanted"), FIXED)
def test_registers_it_before_the_forward(source, wanted):
    assert fixed("forward_pre_hook", source, "hook", places=["@1"]) == wanted
