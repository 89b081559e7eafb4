"""Several backward calls become one."""

from __future__ import annotations

import pytest
from marked import fixed

from graphdoc.fixes.fix_kind import CannotFix

TWO = ["@0", "@1"]
MOVED = {"move_steps": True}

REFUSED = [
    ("«run(«a», 2)»\n«run(«b», 2)»\n", ["@0", "@2"], {"losses": ["@1", "@3"]}, "more than the loss"),
    ("«a.backward(g)»\n«b.backward()»\n", TWO, {}, "own gradient"),
    ("«a.backward(inputs=w)»\n«b.backward()»\n", TWO, {}, "own gradient"),
    ("«a.backward()»\nopt.zero_grad()\n«b.backward()»\n", TWO, {}, "set to zero"),
    ("«a.backward()»\nopt.step()\n«b.backward()»\n", TWO, {}, "steps between"),
    ("«a.backward()»\nif x:\n    opt.step()\n«b.backward()»\n", TWO, {}, "takes part in an update"),
    ("«a.backward()»\nclip_grad_norm_(w)\n«b.backward()»\n", TWO, {}, "takes part in an update"),
    ("«a.backward()»\na = f()\n«b.backward()»\n", TWO, {}, "a would have another value"),
    ("if x:\n    «a.backward()»\n«b.backward()»\n", TWO, {}, "one block"),
    ("x = «a.backward()»\n«b.backward()»\n", TWO, {}, "larger statement"),
    ("«loss.backward()»\nloss = loss + 1\n«loss.backward()»\n", TWO, {}, "cannot become a sum"),
    ("«loss.backward()»\nloss = f()\nprint(loss)\n«loss.backward()»\n", TWO, {}, "used between"),
    ("«a.step()»\n«b.backward()»\n", TWO, {}, "backward on a loss"),
    ("while a:\n    «a.backward()»\n", ["@0"], {}, "only one"),
    ("for a in b:\n    if a:\n        «f(a).backward()»\n", ["@0"], {}, "only one"),
    ("for a in b:\n    «f(a).backward()»\n    o.step()\n", ["@0"], {}, "steps between"),
    ("for a in b:\n    o.zero_grad()\n    «f(a).backward()»\n", ["@0"], {}, "set to zero"),
    ("for a in b:\n    if not a:\n        break\n    «f(a).backward()»\n", ["@0"], {}, "not every way"),
    ("for a in b:\n    «f(a).backward()»\n    seen(w.grad)\n", ["@0"], {}, "takes part in an update"),
    ("for a in b:\n    a.backward()\n    «f(a).backward()»\n", ["@0"], {}, "takes part in an update"),
    ("for a in b:\n    o.step()\n    «f(a).backward()»\n", ["@0"], MOVED, "before the backward"),
    ("for a in b:\n    «f(a).backward()»\n    if a:\n        o.step()\n", ["@0"], MOVED, "hides"),
    ("for a in b:\n    «s.scale(a).backward()»\n    s.step(o)\n", ["@0"], MOVED, "hides"),
    ("for a in b:\n    o = f(a)\n    «o.loss.backward()»\n    o.step()\n", ["@0"], MOVED, "o belongs to one round"),
    ("b = iter(c)\nfor a in b:\n    «f(a).backward()»\n    a.step()\n", ["@0"], MOVED, "a second time"),
    ("for a in f(b):\n    «a.loss.backward()»\n    a.step()\n", ["@0"], MOVED, "a second time"),
    ("«a.backward()»\n", ["@0"], {}, "only one"),
]


@pytest.mark.parametrize(("source", "places", "args", "reason"), REFUSED)
def test_refuses(source, places, args, reason):
    with pytest.raises(CannotFix, match=reason):
        fixed("merge_backward", source, None, places=places, **args)


MERGED = [
    ("«run(«a»)»\n«run(«b»)»\n", ["@0", "@2"], {"losses": ["@1", "@3"]}, "run(a + b)\n"),
    ("for a in b:\n    «x.run(«a»)»\n", ["@0"], {"losses": ["@1"]}, "x.run(sum(b))\n"),
    ("«a.backward(retain_graph=True)»\n«b.backward()»\n", TWO, {}, "(a + b).backward()\n"),
    (
        "«a.backward(retain_graph=True)»  # gone\nb = f(x)  # kept\n«b.backward(retain_graph=True)»\nopt.step()\n",
        TWO,
        {},
        "b = f(x)  # kept\n(a + b).backward()\nopt.step()\n",
    ),
    ("«a.backward()»; «b.backward()»\n", TWO, {}, "(a + b).backward()\n"),
    ("if x: «a.backward()»; «b.backward()»\n", TWO, {}, "if x: (a + b).backward()\n"),
    (
        "«f(x).backward()»\n«(u if v else w).backward(create_graph=True)»\n",
        TWO,
        {},
        "(f(x) + (u if v else w)).backward(create_graph=True)\n",
    ),
    ("«(a * 2).backward()»\n«(b + c).backward()»\n", TWO, {}, "(a * 2 + (b + c)).backward()\n"),
    ("«a.backward()»\n«b.backward()»\n«c.backward()»\n", ["@0", "@1", "@2"], {}, "(a + b + c).backward()\n"),
    (
        "if 1:\n  «a.backward()»\n  p.step()\n  «b.backward()» # x\n  q.step()",
        TWO,
        {"move_steps": True},
        "if 1:\n  (a + b).backward() # x\n  p.step()\n  q.step()",
    ),
    (
        "loss = f(x)\n«loss.backward(retain_graph=True)»\nloss = g(x)\n«loss.backward()»\n",
        TWO,
        {},
        "loss = f(x)\nloss = loss + g(x)\nloss.backward()\n",
    ),
    ("«loss.backward(retain_graph=True)»\n«loss.backward()»\n", TWO, {}, "loss.backward()\n"),
    ("for a in b: «a.backward(retain_graph=True)»\n", ["@0"], {}, "sum(b).backward()\n"),
    (
        "for a in b:\n    «f(a).backward(retain_graph=True)»\n    n += 1\n",
        ["@0"],
        {},
        "total_loss = 0.0\nfor a in b:\n    total_loss = total_loss + f(a)\n    n += 1\ntotal_loss.backward()\n",
    ),
    (
        "if 1:\n  for a in f(b):\n    loss = g(a)\n    «(loss if a else c).backward()»\n  o.step()",
        ["@0"],
        {},
        "if 1:\n  total_loss = 0.0\n  for a in f(b):\n    loss = g(a)\n"
        "    total_loss = total_loss + (loss if a else c)\n  total_loss.backward()\n  o.step()",
    ),
    (
        "for k, v in d.items():\n    o = os[k]\n    o.zero_grad()\n"
        "    «f(v).backward()»\n    seen(v)\n    o.step()\nx = 1\n",
        ["@0"],
        MOVED,
        "total_loss = 0.0\nfor k, v in d.items():\n    o = os[k]\n    o.zero_grad()\n"
        "    total_loss = total_loss + f(v)\n"
        "    seen(v)\ntotal_loss.backward()\nfor k, v in d.items():\n    o = os[k]\n    o.step()\nx = 1\n",
    ),
    (
        "total_loss = 1\nfor a, o in zip(b, c):\n    «f(a).backward()»\n    o.step()\n    o.zero_grad()\n",
        ["@0"],
        MOVED,
        "total_loss = 1\nsummed_loss = 0.0\nfor a, o in zip(b, c):\n    summed_loss = summed_loss + f(a)\n"
        "summed_loss.backward()\nfor a, o in zip(b, c):\n    o.step()\n    o.zero_grad()\n",
    ),
]


@pytest.mark.parametrize(("source", "places", "args", "expected"), MERGED)
def test_merges(source, places, args, expected):
    assert fixed("merge_backward", source, None, places=places, **args) == expected
