"""Detach and clone: at the use, where a value is assigned, behind a statement."""

from __future__ import annotations

import pytest
from marked import fixed, unmark

from graphdoc.fixes.fix_kind import CannotFix
from graphdoc.fixes.kinds import build
from graphdoc.remedies.carried_value import over_modules
from graphdoc.source.module import Source

PAIR = {"tuple": ["tensor", "tensor"]}

# What must be refused, and a part of the reason.
REFUSED_EXPRESSIONS = [
    ("x = «y.detach()»\n", {}, "already"),
    ("x = «(a.detach(), b.detach())»\n", {"structure": PAIR}, "already"),
    ("x = «tuple(t.detach() for t in s)»\n", {"structure": PAIR}, "already"),
    ("x, y = «f(z)»\n", {}, "taken apart"),
    ("«x» = y\n", {}, "assigned"),
    ("x = f(«a, »b)\n", {}, "no expression"),
    ("x = «f(y)»\n", {"operands": ["z"]}, "does not occur"),
    ("x = «f(y.detach())»\n", {"operands": ["y"]}, "already"),
    ("x = «f(y)»\n", {"structure": {"tuple": ["tensor", {"list": "tensor"}]}}, "computed twice"),
    ("x = «f(y)»\n", {"structure": {"deque": "tensor"}}, "twice"),
    ("x = «y»\n", {"structure": {"unheard": "of"}}, "nested"),
    ("def f(:\n    «x»\n", {}, "parse"),
]


@pytest.mark.parametrize(("source", "args", "reason"), REFUSED_EXPRESSIONS)
def test_refuses_to_detach_an_expression(source, args, reason):
    with pytest.raises(CannotFix, match=reason):
        fixed("detach_expression", source, **args)


EXPRESSIONS = [
    ("x = «y»\n", {}, "x = y.detach()\n"),
    ("x = «self.h[0]»  # kept\n", {}, "x = self.h[0].detach()  # kept\n"),
    ("x = «a + b»\n", {}, "x = (a + b).detach()\n"),
    # parentheses that only group are used, those of a call are not
    ("x = («a + b») * c\n", {}, "x = (a + b).detach() * c\n"),
    ("x = f(«a + b»)\n", {}, "x = f((a + b).detach())\n"),
    ("x = f((«a + b»), c)\n", {}, "x = f((a + b).detach(), c)\n"),
    ("return_ = [f] and («-a»)\n", {}, "return_ = [f] and (-a).detach()\n"),
    ("x = (  # why\n    «a\n    + b»\n)\n", {}, "x = (  # why\n    a\n    + b\n).detach()\n"),
    ("x = «a if c else b»\n", {}, "x = (a if c else b).detach()\n"),
    ("f(*«xs»)\n", {"structure": {"list": "tensor"}}, "f(*[t.detach() for t in xs])\n"),
    ("while («h := f(h)») is not None: pass\n", {}, "while (h := f(h).detach()) is not None: pass\n"),
    ("x = «f(a, h) + h.shape[0]»\n", {"operands": ["h"]}, "x = f(a, h.detach()) + h.shape[0]\n"),
    ("x = «f(self . h, self.h2)»\n", {"operands": ["self.h"]}, "x = f(self . h.detach(), self.h2)\n"),
    ("x = «cell(i, (h, c))»\n", {"operands": ["h", "c"]}, "x = cell(i, (h.detach(), c.detach()))\n"),
    ("x = «cell(i, s)»\n", {"operands": [["s", PAIR]]}, "x = cell(i, tuple(t.detach() for t in s))\n"),
    ("x = «s»\n", {"structure": PAIR}, "x = tuple(t.detach() for t in s)\n"),
    ("x = «(a, b)»\n", {"structure": PAIR}, "x = (a.detach(), b.detach())\n"),
    ("x = «a, b»\n", {"structure": {"tuple": ["tensor", None]}}, "x = a.detach(), b\n"),
    ("x = «a or b»\n", {"structure": PAIR}, "x = tuple(t.detach() for t in a or b)\n"),
    ("x = «f(y)[1]»\n", {"structure": {"dict": "tensor"}}, "x = {k: v.detach() for k, v in f(y)[1].items()}\n"),
    (
        "x = «s»\n",
        {"structure": {"dict": {"list": PAIR}}},
        "x = {k: [tuple(v.detach() for v in u) for u in v] for k, v in s.items()}\n",
    ),
    (
        "x = «s»\n",
        {"structure": {"tuple": ["tensor", {"list": "tensor"}]}},
        "x = (s[0].detach(), [u.detach() for u in s[1]])\n",
    ),
    ("x = «s»\n", {"structure": {"namedtuple": ["tensor", "tensor"]}}, "x = type(s)(*(t.detach() for t in s))\n"),
    (
        "x = «s»\n",
        {"structure": {"list": {"optional": {"namedtuple": ["tensor", "tensor"]}}}},
        "x = [t if t is None else type(t)(*(u.detach() for u in t)) for t in s]\n",
    ),
    (
        "x = «s»\n",
        {"structure": {"dict": {"optional": "tensor"}}},
        "x = {k: v if v is None else v.detach() for k, v in s.items()}\n",
    ),
    ("x = f(«s»)\n", {"structure": {"optional": "tensor"}}, "x = f((s if s is None else s.detach()))\n"),
    ("x = «s»\n", {"structure": {"deque": "tensor"}}, "x = type(s)((t.detach() for t in s), s.maxlen)\n"),
    (
        "x = «s»\n",
        {"structure": {"dataclass": {"h": "tensor"}}},
        "import dataclasses\nx = dataclasses.replace(s, h=s.h.detach())\n",
    ),
]


@pytest.mark.parametrize(("source", "args", "expected"), EXPRESSIONS)
def test_detaches_an_expression(source, args, expected):
    assert fixed("detach_expression", source, **args) == expected


def test_clones_an_expression():
    assert fixed("clone_expression", "x = f(«self.table» @ w)\n") == "x = f(self.table.clone() @ w)\n"
    assert (
        fixed("clone_expression", "y = x.detach()\nz = f(«x.detach()»)\n")
        == "y = x.detach()\nz = f(x.detach().clone())\n"
    )
    with pytest.raises(CannotFix, match="already"):
        fixed("clone_expression", "x = f(«w.clone()»)\n")


ASSIGNED = [
    ("h = «f(h)»\n", ["h"], "h = f(h).detach()\n"),
    ("h: Tensor = «f(h)»  # type: ignore\n", ["h"], "h: Tensor = f(h).detach()  # type: ignore\n"),
    ("h = f(«x», h)  # type: Tensor\n", ["h"], "h = f(x, h).detach()  # type: Tensor\n"),
    ("self.h, self.c = «h, c»\n", ["self.h", "self.c"], "self.h, self.c = h.detach(), c.detach()\n"),
    ("a, (b, self.c) = «x, (y, z)»\n", ["self.c"], "a, (b, self.c) = x, (y, z.detach())\n"),
    (
        "seq, self.state = «self.rnn(x, self.state)»\n",
        [["self.state", PAIR]],
        "seq, self.state = self.rnn(x, self.state)\nself.state = tuple(t.detach() for t in self.state)\n",
    ),
    # the other name keeps its graph
    ("self.h = h = «f(x)»\n", ["self.h"], "self.h = h = f(x)\nself.h = self.h.detach()\n"),
    ("if x: h = «f(x)»\n", ["h"], "if x: h = f(x).detach()\n"),
    ("if x: y, h = «f(x)»; g()\n", ["h"], "if x: y, h = f(x); h = h.detach(); g()\n"),
    ("if x:\n\ty, h = «f(x)»", ["h"], "if x:\n\ty, h = f(x)\n\th = h.detach()"),
    ("h += «f(x)»\r\nprint()\r\n", ["h"], "h += f(x)\r\nh = h.detach()\r\nprint()\r\n"),
    ("for h in «states»:\n    g(h)\n", ["h"], "for h in states:\n    h = h.detach()\n    g(h)\n"),
    ("for h in «states»: g(h)\n", ["h"], "for h in states: h = h.detach(); g(h)\n"),
]


@pytest.mark.parametrize(("source", "targets", "expected"), ASSIGNED)
def test_detaches_where_assigned(source, targets, expected):
    assert fixed("detach_assigned", source, targets=targets) == expected


@pytest.mark.parametrize(
    ("source", "targets", "reason"),
    [
        ("h = «f(h)»\n", ["g"], "not assigned"),
        ("h = «f(h).detach()»\n", ["h"], "already"),
        ("for x in y: a, h = «f(x)»\nelse: pass\n", [["h", {"nonsense": 1}]], "nested"),
    ],
)
def test_refuses_where_assigned(source, targets, reason):
    with pytest.raises(CannotFix, match=reason):
        fixed("detach_assigned", source, targets=targets)


AFTER = [
    ("«loss.backward()»\n", ["h"], "loss.backward()\nh = h.detach()\n"),
    ("«loss.backward()»", ["h"], "loss.backward()\nh = h.detach()"),
    (
        "while True:\n  with amp:\n    «loss.backward()»  # go\n  # then\n  step()\n",
        ["model.a", "model.b"],
        "while True:\n  with amp:\n    loss.backward()  # go\n    model.a = model.a.detach()\n"
        "    model.b = model.b.detach()\n  # then\n  step()\n",
    ),
    ("a(); «b()»; c()\n", ["h"], "a(); b(); h = h.detach(); c()\n"),
    ("a(); «b()» # end\n", ["h"], "a(); b() # end\nh = h.detach()\n"),
    ("if x: «b()»\n", ["h"], "if x: b(); h = h.detach()\n"),
    ("«b()»\n", [["d", {"dict": "tensor"}]], "b()\nd = {k: v.detach() for k, v in d.items()}\n"),
    (
        "«b()»\n",
        [["o", {"attribute": {"h": "tensor", "c": PAIR}}]],
        "b()\no.h = o.h.detach()\no.c = tuple(t.detach() for t in o.c)\n",
    ),
    # what holds the value may be missing in another configuration
    (
        "buffer = None\nif big: buffer = Buffer()\n«b()»\n",
        ["buffer.kept.x"],
        "buffer = None\nif big: buffer = Buffer()\nb()\n"
        "if buffer is not None: buffer.kept.x = buffer.kept.x.detach()\n",
    ),
    ("buffer = Buffer()\n«b()»\n", ["buffer.x"], "buffer = Buffer()\nb()\nbuffer.x = buffer.x.detach()\n"),
    # a child of a list of modules, as PyTorch names it
    ("«b()»\n", ["net.layers.0.mem"], "b()\nnet.layers[0].mem = net.layers[0].mem.detach()\n"),
    # a global is not bound anew inside a function
    ("def f():\n    «b()»\n", ["h"], "def f():\n    b()\n    h.detach_()\n"),
    ("def f():\n    global h\n    «b()»\n", ["h"], "def f():\n    global h\n    b()\n    h = h.detach()\n"),
    ("def f(h):\n    «b()»\n", ["h"], "def f(h):\n    b()\n    h = h.detach()\n"),
    ("def f():\n    «b()»\n", [["m", {"list": "tensor"}]], "def f():\n    b()\n    m[:] = [t.detach() for t in m]\n"),
    (
        "def f():\n    «b()»\n",
        [["m", {"deque": "tensor"}]],
        "def f():\n    b()\n    m.extend([m.popleft().detach() for _ in range(len(m))])\n",
    ),
    (
        "def f():\n    «b()»\n",
        [["m", {"dict": "tensor"}]],
        "def f():\n    b()\n    m.update({k: v.detach() for k, v in m.items()})\n",
    ),
]


@pytest.mark.parametrize(("source", "paths", "expected"), AFTER)
def test_detaches_behind_a_statement(source, paths, expected):
    assert fixed("detach_after", source, "after", paths=paths) == expected


@pytest.mark.parametrize(
    ("source", "paths", "reason"),
    [
        ("def f():\n    «return x»\n", ["h"], "reached"),
        ("«b()»\n", ["f(x).h"], "no name"),
        ("«b()»\n", [], "no carried"),
        ("«b()»\nh = h.detach()\n", ["h"], "already"),
        ("def f():\n    «b()»\n", [["h", PAIR]], "enclosing scope"),
    ],
)
def test_refuses_behind_a_statement(source, paths, reason):
    with pytest.raises(CannotFix, match=reason):
        fixed("detach_after", source, "after", paths=paths)


def test_without_columns_the_one_statement_of_the_line_is_meant():
    sources = {"a.py": Source("a.py", "x = 1\nh = f(h)\n")}
    assert build("detach_expression", sources, {"place": {"file": "a.py", "line": 2}}) == {
        "a.py": "x = 1\nh = f(h).detach()\n"
    }


def test_detaches_in_front_of_the_forward_that_takes_it_up() -> None:
    source = "for x in data:\n    «out = agent(x)»\n    loss(out).backward()\n"
    once = "for x in data:\n    agent.h = agent.h.detach()\n    out = agent(x)\n    loss(out).backward()\n"
    assert fixed("detach_after", source, "before", paths=["agent.h"]) == once
    with pytest.raises(CannotFix, match="already"):
        fixed("detach_after", once.replace("out = agent(x)", "«out = agent(x)»"), "before", paths=["agent.h"])


IN_MODULES = [
    (
        [("v", "tensor")],
        '    for module in net.modules():\n        kept = getattr(module, "v", None)\n'
        "        if torch.is_tensor(kept) and kept.grad_fn is not None:\n            module.v = kept.detach()\n",
    ),
    (
        [("memory", "dict")],
        '    for module in net.modules():\n        for name, kept in getattr(module, "memory", {}).items():\n'
        "            if torch.is_tensor(kept) and kept.grad_fn is not None:\n"
        "                module.memory[name] = kept.detach()\n",
    ),
]


@pytest.mark.parametrize(("kept", "loop"), IN_MODULES)
def test_detaches_what_the_modules_of_a_model_keep(kept, loop) -> None:
    source = "import torch\nfor x in data:\n    net(x).sum().backward()\n    «opt.step()»\n"
    expected = "import torch\nfor x in data:\n    net(x).sum().backward()\n    opt.step()\n" + loop
    text = over_modules(Source("a.py", unmark(source)[0]), "net", kept)
    assert fixed("add_statement", source, statement=text) == expected
    with pytest.raises(CannotFix, match="one-line"):
        fixed("add_statement", "for x in data: «opt.step()»\n", statement=text)
