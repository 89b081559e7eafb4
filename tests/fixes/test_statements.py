"""Fixes that move, remove, copy or add whole statements."""

# ruff: noqa: E501  (a program and its fixed version are read side by side)

from __future__ import annotations

import pytest
from marked import fixed

from graphdoc.fixes.fix_kind import CannotFix

ALL = [
    [pattern, "{all}"]
    for pattern in ("filter({_}, {all})", "[{p} for {p} in {all} if {_}]", "({p} for {p} in {all} if {_})")
]
REFUSED = [
    ("accumulate_number", "def f(v):\n    «t += w»\n", {"plain": True}, "no argument"),
    ("rewrite", "«p = q = a»\n", {"pairs": [["{p} = {new}", "{p}.detach().copy_({new})"]]}, "in another way"),
    ("detach_instead", "«y = h.detach_()»\n", {}, "larger statement"),
    ("detach_instead", "«s[0].detach_()»\n", {}, "item of a container"),
    ("detach_instead", "for g in grads:\n    «g.detach_()»\n    use(g)\n", {}, "may be one tensor"),
    ("detach_instead", "def f(gs):\n    for g in gs:\n        «g.detach_()»\n    return gs\n", {}, "may be one tensor"),
    ("detach_instead", "gs = [a, b]\nfor g in gs:\n    if g.dim():\n        «g.detach_()»\n", {}, "not each g"),
    ("detach_instead", "gs = [a, b]\nfor g in gs:\n    use(g)\n    «g.detach_()»\n", {}, "used before"),
    ("detach_instead", "h = a[0]\n«h.detach_()»\nuse(a)\n", {}, "h is a view of a"),
    ("move_statement", "«a()»\nb()\n", {"after": "@0"}, "own place"),
    ("move_statement", "«b()»\n«a()»\n", {"before": "@1"}, "already stands"),
    ("move_statement", "«a()»\nif x:\n    «b()»\n", {"after": "@1"}, "another block"),
    ("move_statement", "def f():\n    «a()»\n«b()»\n", {"after": "@1"}, "different functions"),
    ("move_statement", "if i: «x()»\n«z()»\n", {"after": "@1"}, "another block"),
    ("move_statement", "for i in j:\n    «x()»\n«z()»\n", {"after": "@1"}, "another block"),
    ("delete_statement", "if «x»:\n    a()\n", {}, "whole block"),
    ("move_into_loop", "for i in x:\n    «a = 1»\n    «b()»\n", {"loop": "@1"}, "already runs"),
    ("move_into_loop", "«a = 1»\ndef f():\n    for i in x:\n        «b()»\n", {"loop": "@1"}, "different functions"),
    ("move_into_loop", "«a = 1»\n«b()»\n", {"loop": "@1"}, "no loop"),
    ("move_into_loop", "«a = g(x)»\na = a + 1\nfor i in y:\n    «b(a)»\n", {"loop": "@1"}, "a is changed on the way"),
    ("move_into_loop", "«a = g(x)»\nx = h()\nfor i in y:\n    «b(a)»\n", {"loop": "@1"}, "x is changed on the way"),
    (
        "move_into_loop",
        "class A:\n  def __init__(self, n):\n    «self.x = g(n)»\n  def forward(self):\n    return «self.x»\ndef g(n): pass\n",
        {"into": "@1"},
        "n is not known in forward",
    ),
    (
        "move_into_loop",
        "class A:\n  def __init__(self):\n    «self.x = g(self.w)»\nclass B:\n  def forward(self):\n    return «self.x»\n",
        {"into": "@1"},
        "self is another variable in forward",
    ),
    (
        "move_into_loop",
        "def fit(m, x):\n  «p = m(x)»\n  def closure(x):\n    «use(p)»\n  step(closure)\n",
        {"into": "@1"},
        "x is another variable in closure",
    ),
    (
        "move_into_loop",
        "«p = m(x)»\ndef act(p):\n  return «use(p)»\nact(p)\n",
        {"into": "@1"},
        "act is given its own p",
    ),
    ("move_into_loop", "a = g()\n«a = a.T»\nfor i in x:\n    «b(a)»\n", {"loop": "@1"}, "starts from a itself"),
    ("move_into_loop", "«a = f()»\nfor k, v in a.items():\n    «b(v)»\n", {"loop": "@1"}, "the loop runs over a"),
    ("move_into_loop", "«a = f()»\nwhile a.more():\n    «b(a)»\n", {"loop": "@1"}, "the loop runs over a"),
    ("move_into_loop", "«h = f(x)»\nfor i in y:\n    «g(h)»\n    h = cut(h)\n", {"loop": "@1"}, "carries h on"),
    ("move_into_loop", "«a = d(x).rsample()»\nfor i in y:\n    «b(a)»\n", {"loop": "@1"}, "another one from rsample"),
    (
        "move_into_loop",
        "«a = f(pool.pop())»\nprint(a)\nfor i in y:\n    «b(a)»\n",
        {"loop": "@1"},
        "another one from pop",
    ),
    ("move_into_loop", "«a = f(r() if k else next(p))»\nfor i in y:\n    «b(a)»\n", {"loop": "@1"}, "from next"),
    (
        "move_into_loop",
        "for i in y:\n    «a[i] = f(y[i])»\nfor _ in z:\n    «b(a)»\n",
        {"loop": "@1"},
        "in a loop of its own",
    ),
    ("move_into_loop", "«a = nn.Linear(2, 2)»\nfor x in y:\n    «a(x)»\n", {"loop": "@1"}, "builds a Linear"),
    (
        "move_into_loop",
        "class T: pass\n«t = T(f(x))»\nfor x in y:\n    «t.step(x)»\n",
        {"loop": "@1"},
        "builds a T",
    ),
    ("move_statement", "«x.copy_(y)»\na = f(x)\n«a.backward()»\n", {"after": "@1"}, "x would have another value"),
    (
        "move_statement",
        "«o = SGD(m.w)»\ndef f(n):\n    global m\n    m = n\n«f(g)»\n",
        {"after": "@1"},
        "would have another value",
    ),
    ("move_statement", "«x.copy_(y)»\ny.zero_()\n«a.backward()»\n", {"after": "@1"}, "y would have another value"),
    (
        "move_statement",
        "«o = SGD(m.w)»\nm = f(m)\n«m = g(m)»\n",
        {"after": "@1", "for_value": True},
        "m would have another value at `m = f",
    ),
    ("rewrite", "o = SGD(«[2 * p for p in m.w if p.requires_grad]»)\n", {"pairs": ALL}, "in another way"),
    ("rewrite", "o = SGD(«[p for p in m.w if p.requires_grad if p.size]»)\n", {"pairs": ALL}, "in another way"),
    ("compute_in_method", "def f():\n    «a = g()»\n", {}, "not computed in a method"),
    (
        "compute_in_method",
        "class A:\n  def __init__(self):\n    «self.x = nn.Linear(2, 2)»\n  def forward(self): return self.x\n",
        {},
        "builds an object",
    ),
    (
        "compute_in_method",
        "class A:\n  def __init__(self):\n    «self.x = g(self.w)»\n  def reset(self):\n    self.x = 1\n"
        "  def forward(self): return self.x\n",
        {},
        "assigned in several places",
    ),
    *(
        (
            "compute_in_method",
            f"class A:\n  def __init__(self):\n    self.x = {held}\n  def begin(self):\n    «self.x = g(self.w)»\n"
            f"  def forward(self):\n    {read}\n",
            {},
            "assigned in several places",
        )
        for held, read in (
            ("torch.zeros(3)", "return self.x"),
            ("None", "return 0 if self.x is None else self.x"),
            ("None\n    self.y = h(self.x)", "return self.x"),
        )
    ),
    (
        "compute_in_method",
        "class A:\n  def __init__(self, n):\n    n = n or 3\n    «self.x = g(n)»\n  def forward(self): return self.x\n",
        {},
        "n is assigned again",
    ),
    (
        "compute_in_method",
        "class A:\n  def __init__(self):\n    if f():\n      «self.x = g(self.w)»\n  def forward(self): return self.x\n",
        {},
        "under a condition",
    ),
    ("compute_in_method", "class A:\n  def __init__(self):\n    «self.x = g(self.w)»\n", {}, "no other method"),
    (
        "compute_in_method",
        "class A:\n  def __init__(self):\n    «self.x = self.w * self.d.sample()»\n"
        "  def forward(self): return self.x\n",
        {},
        "another one from sample",
    ),
    ("uncache", "if a > b:\n    «x = 1»\n", {}, "no cache"),
    ("uncache", "if k in c:\n    «x = c[k]»\n", {}, "nothing would compute"),
    ("uncache", "if k not in c:\n    «c[k] = net(torch.randn(3))»\n", {}, "gives another value each time"),
    ("uncache", "@lru_cache\ndef f(n):\n    «return net(torch.rand(n))»\n", {}, "gives another value each time"),
    ("uncache", "def f(k):\n    if k in d:\n        return d[k]\n    «c[k] = g()»\n    return c[k]\n", {}, "no cache"),
    ("uncache", "if not self.frozen:\n    self.x = «f()»\n", {}, "no cache"),
    ("uncache", "if goal is None:\n    self.x = «f()»\n", {}, "no cache"),
    ("uncache", "if a and k not in c:\n    «c[k] = f(k)»\n", {}, "no cache"),
    ("accumulate_number", "«total += 1»\n", {}, "a number already"),
    ("accumulate_number", "«f(x)»\n", {}, "nothing is accumulated"),
    ("add_statement", "t = 0\n«for x in y: pass»\n", {"statement": "t = 0", "before": True}, "stands there already"),
    ("add_statement", "def f():\n    «return step()»\n", {"statement": "g()"}, "nothing after"),
    ("require_input_grad", "x = f()\nx.requires_grad_()\n«y = x»\n", {"name": "x"}, "already"),
    ("add_statement", "«h = f()»\nh.retain_grad()\n", {"statement": "h.retain_grad()", "bound": True}, "already"),
]


@pytest.mark.parametrize(("kind", "source", "args", "reason"), REFUSED)
def test_refuses(kind, source, args, reason):
    with pytest.raises(CannotFix, match=reason):
        fixed(kind, source, **args)


CACHE = "def get(k):\n    if k not in c:\n        # slow\n        c[k] = «f(k)»\n    return c[k]\n"
FIXED = [
    ("accumulate_number", "def f(v):\n    «t += v * 2»\n", {"plain": True}, "def f(v):\n    t += float(v * 2)\n"),
    (
        "rewrite",
        "for p in ps:\n    «p = a * p»\n",
        {"pairs": [["{p} = {new}", "{p}.detach().copy_({new})"]]},
        "for p in ps:\n    p.detach().copy_(a * p)\n",
    ),
    (
        "move_statement",
        "«a.step()»  # c\nx = 1\n«b.backward()»\n",
        {"after": "@1"},
        "x = 1\nb.backward()\na.step()  # c\n",
    ),
    ("move_statement", "«a.step()»\n«b.backward()»", {"after": "@1"}, "b.backward()\na.step()"),
    (
        "move_statement",
        "«o = SGD(m.w)»\ndef f(m):\n    m[0] = m.w\n«f(m)»\n",
        {"after": "@1"},
        "def f(m):\n    m[0] = m.w\nf(m)\no = SGD(m.w)\n",
    ),
    (
        "move_statement",
        "«o = SGD(m.w)»\nx = 1\n«m = copy(m)»\n",
        {"after": "@1", "for_value": True},
        "x = 1\nm = copy(m)\no = SGD(m.w)\n",
    ),
    (
        "rewrite",
        "o = SGD(«filter(lambda p: p.requires_grad, m.w())», lr=1)\n",
        {"pairs": ALL},
        "o = SGD(m.w(), lr=1)\n",
    ),
    ("rewrite", "o = SGD(«[p for p in m.w() if p.requires_grad]»)\n", {"pairs": ALL}, "o = SGD(m.w())\n"),
    ("rewrite", "o = SGD(«(p for p in m.w() if p.requires_grad)», lr=1)\n", {"pairs": ALL}, "o = SGD(m.w(), lr=1)\n"),
    ("move_statement", "«x = 1»\ny = 2\n«z(\n  1)»\n", {"after": "@1"}, "y = 2\nz(\n  1)\nx = 1\n"),
    ("move_statement", "«x()»\ny()\n«z()»\n", {"before": "@1"}, "y()\nx()\nz()\n"),
    ("move_statement", "with a:\n\t«x()»\n\ty()\n«z()»\n", {"after": "@1"}, "with a:\n\ty()\nz()\nx()\n"),
    ("move_statement", "«a()»; «b()»\n", {"after": "@1"}, "b()\na()\n"),
    ("move_statement", "«a()»; «b()»; c()\n", {"after": "@1"}, "b(); a(); c()\n"),
    ("delete_statement", "a()\n«loss.requires_grad = True»  # c\nb()\n", {}, "a()\nb()\n"),
    ("delete_statement", "if x:\n    «a()»\n", {}, "if x:\n    pass\n"),
    ("delete_statement", "a(); «b()»\n", {}, "a()\n"),
    (
        "move_into_loop",
        "«h = f(x)»  # c\nfor i in y:\n    «g(h)»\n",
        {"loop": "@1"},
        "for i in y:\n    h = f(x)  # c\n    g(h)\n",
    ),
    # read before the loop: copied
    (
        "move_into_loop",
        "«h = f(x)»\nprint(h)\nfor i in y: «g(h)»\n",
        {"loop": "@1"},
        "h = f(x)\nprint(h)\nfor i in y: h = f(x); g(h)\n",
    ),
    (
        "move_into_loop",
        "«a = f(\n    x)»\n«b = '''\n x'''»\nwhile 1:\n\t«g(a)»\n",
        {"places": ["@0", "@1"], "loop": "@2"},
        "while 1:\n\ta = f(\n\t    x)\n\tb = '''\n x'''\n\tg(a)\n",
    ),
    (
        "move_into_loop",
        "class A:\n  def __init__(self):\n    «self.x = g(self.w)»\n    self.y = 1\n  def forward(self):\n"
        "    '''Doc.'''\n    return «self.x»\ndef g(w): pass\n",
        {"into": "@1"},
        "class A:\n  def __init__(self):\n    self.y = 1\n  def forward(self):\n"
        "    '''Doc.'''\n    self.x = g(self.w)\n    return self.x\ndef g(w): pass\n",
    ),
    (
        "move_into_loop",
        "def fit(m, x):\n  «p = m(x)»\n  def closure():\n    «use(p)»\n  step(closure)\n",
        {"into": "@1"},
        "def fit(m, x):\n  def closure():\n    p = m(x)\n    use(p)\n  step(closure)\n",
    ),
    # what the moved one reads has a graph as well: it would be the old one
    (
        "move_into_loop",
        "e = f(x)\nn = len(x)\n«p = g(e, n)»\nfor i in y:\n    «h(p)»\n",
        {"loop": "@1", "graphs": ["e", "p"], "whole": True},
        "n = len(x)\nfor i in y:\n    e = f(x)\n    p = g(e, n)\n    h(p)\n",
    ),
    # a state that the loop carries keeps its start
    (
        "move_into_loop",
        "«m, h = f(x)»\nfor i in y:\n    o, h = «g(m, h)»\n    h = cut(h)\n",
        {"loop": "@1"},
        "m, h = f(x)\nfor i in y:\n    m, _ = f(x)\n    o, h = g(m, h)\n    h = cut(h)\n",
    ),
    # what is drawn, or taken as the next one, is that of before in each round
    (
        "move_into_loop",
        "«w = f(torch.randn(4))»\nfor i in y:\n    «g(w)»\n",
        {"loop": "@1"},
        "drawn = torch.randn(4)\nfor i in y:\n    w = f(drawn)\n    g(w)\n",
    ),
    (
        "move_into_loop",
        "«w = f(next(pool)[0], k)»\nfor i in y:\n    «g(w)»\n",
        {"loop": "@1"},
        "drawn = next(pool)\nfor i in y:\n    w = f(drawn[0], k)\n    g(w)\n",
    ),
    # a loss module that is built and called in one go keeps nothing
    (
        "move_into_loop",
        "«a = nn.MSELoss()(p, q)»\nfor x in y:\n    «b(a)»\n",
        {"loop": "@1"},
        "for x in y:\n    a = nn.MSELoss()(p, q)\n    b(a)\n",
    ),
    # what only holds its place from the start stays
    (
        "compute_in_method",
        "class A:\n  def __init__(self):\n    self.x = None\n  def begin(self):\n    «self.x = g(self.w)»\n"
        "  def forward(self):\n    return self.x\n",
        {},
        "class A:\n  def __init__(self):\n    self.x = None\n  def begin(self):\n    pass\n"
        "  def forward(self):\n    self.x = g(self.w)\n    return self.x\n",
    ),
    # two attributes, of which each method computes those that it reads, and the local value between them
    (
        "compute_in_method",
        "class A:\n  def __init__(self, p):\n    # above\n    «self.l = f(  # c\n        p, k)»  # d\n"
        "  def forward(self, x):\n    return x * self.l\n",
        {},
        "class A:\n  def __init__(self, p):\n    # above\n    self.p = p  # d\n"
        "  def forward(self, x):\n    self.l = f(  # c\n        self.p, k)  # d\n    return x * self.l\n",
    ),
    (
        "compute_in_method",
        "class A:\n  def __init__(self):\n    e = g(self.w)\n    «self.x = e + 1»\n    «self.y = h(self.x)»  # c\n    self.n = 1\n"
        "  def forward(self):\n    'Doc.'\n    return self.y\n  def show(self):\n    print(self.x)\n",
        {"places": ["@0", "@1"]},
        "class A:\n  def __init__(self):\n    self.n = 1\n"
        "  def forward(self):\n    'Doc.'\n    e = g(self.w)\n    self.x = e + 1\n    self.y = h(self.x)  # c\n"
        "    return self.y\n  def show(self):\n    e = g(self.w)\n    self.x = e + 1\n    print(self.x)\n",
    ),
    # an argument is read from the attribute that keeps it, or from a new one
    (
        "compute_in_method",
        "class A:\n  def __init__(self, n, m):\n    self.size = n\n    «self.x = g(self.w, n, m)»\n"
        "  def forward(self): return self.x\n",
        {},
        "class A:\n  def __init__(self, n, m):\n    self.size = n\n    self.m = m\n"
        "  def forward(self): self.x = g(self.w, self.size, self.m); return self.x\n",
    ),
    # a parameter that is made within the expression is made once, and kept
    (
        "compute_in_method",
        "class A:\n  def __init__(self, n):\n    «self.x = exp(nn.Parameter(log(n)))»\n"
        "  def forward(self):\n    return self.x\n",
        {},
        "class A:\n  def __init__(self, n):\n    self.x_parameter = nn.Parameter(log(n))\n"
        "  def forward(self):\n    self.x = exp(self.x_parameter)\n    return self.x\n",
    ),
    # what is drawn within the expression is drawn once, and kept
    (
        "compute_in_method",
        "class A:\n  def __init__(self):\n    «self.x = self.mask * torch.rand(5)»\n"
        "  def forward(self):\n    return self.x\n",
        {},
        "class A:\n  def __init__(self):\n    self.x_drawn = torch.rand(5)\n"
        "  def forward(self):\n    self.x = self.mask * self.x_drawn\n    return self.x\n",
    ),
    # read from outside, or where it was computed: it stays there too
    (
        "compute_in_method",
        "class A:\n  def __init__(self):\n    «self.x = g(self.w)»\n  def forward(self):\n    return self.x\nprint(A().x)\n",
        {},
        "class A:\n  def __init__(self):\n    self.x = g(self.w)\n  def forward(self):\n    self.x = g(self.w)\n"
        "    return self.x\nprint(A().x)\n",
    ),
    ("uncache", CACHE, {}, "def get(k):\n    # slow\n    c[k] = f(k)\n    return c[k]\n"),
    (
        "uncache",
        "def f():\n    if k in c:\n        return «c[k]»\n    return g(k)\n",
        {},
        "def f():\n    return g(k)\n",
    ),
    ("uncache", "if self.x is None: self.x = «f()»\nuse(self.x)\n", {}, "self.x = f()\nuse(self.x)\n"),
    (
        "uncache",
        "if k in c:\n    v = c[k]\nelse:\n    v = «f(k)»\n    c[k] = v\nuse(v)\n",
        {},
        "v = f(k)\nc[k] = v\nuse(v)\n",
    ),
    (
        "uncache",
        "def f(k):\n    if k and k in c:\n        return c[k].to(d)\n    v = g(k)\n    if k:\n        «c[k] = v»\n    return v\n",
        {},
        "def f(k):\n    v = g(k)\n    if k:\n        c[k] = v\n    return v\n",
    ),
    (
        "uncache",
        "def f(self):\n    if self.x is not None:\n        return self.x\n    «self.x = g()»\n    return self.x\n",
        {},
        "def f(self):\n    self.x = g()\n    return self.x\n",
    ),
    ("uncache", "if not self.known:\n    self.x, self.known = «f()», True\n", {}, "self.x, self.known = f(), True\n"),
    ("uncache", "if not self.x:\n    self.x['a'] = «f()»\n", {}, "self.x['a'] = f()\n"),
    ("uncache", "if not hasattr(self, 'x'):\n    self.x = «f()»\n", {}, "self.x = f()\n"),
    (
        "uncache",
        "@a\n@functools.lru_cache(maxsize=None)\ndef f():\n    return «g()»\n",
        {},
        "@a\ndef f():\n    return g()\n",
    ),
    ("accumulate_number", "«total += loss»\n", {}, "total += loss.detach()\n"),
    ("accumulate_number", "«total = total + a * b»\n", {}, "total = total + (a * b).detach()\n"),
    ("accumulate_number", "«losses.append(loss)»\n", {}, "losses.append(loss.detach())\n"),
    (
        "accumulate_number",
        "for x in y:\n  «total += f(x,  # one\n    k)»  # two\n  «total.backward()»\n",
        {"backward": "@1"},
        "for x in y:\n  loss = f(x,  # one\n    k)\n  total += loss.detach()  # two\n  loss.backward()\n",
    ),
    (
        "accumulate_number",
        "«total += loss»\n«total.backward()»\n",
        {"backward": "@1"},
        "total += loss.detach()\nloss.backward()\n",
    ),
    (
        "accumulate_number",
        "«total = total + loss»\n«self.accelerator.backward(total)»\n",
        {"backward": "@1"},
        "total = total + loss.detach()\nself.accelerator.backward(loss)\n",
    ),
    (
        "accumulate_number",
        "for x in y:\n  «total += f(x)»\n  «total.backward()»\n",
        {"backward": "@1"},
        "for x in y:\n  loss = f(x)\n  total += loss.detach()\n  loss.backward()\n",
    ),
    (
        "add_statement",
        "if a:\n\t«for x in y»: pass\n",
        {"statement": "self.total = 0.0", "before": True},
        "if a:\n\tself.total = 0.0\n\tfor x in y: pass\n",
    ),
    ("add_statement", "f()\n«g()»; h()\n", {"statement": "s = 0"}, "f()\ng(); s = 0; h()\n"),
    ("require_input_grad", "x, y = «f()»\ng(x)\n", {"name": "x"}, "x, y = f()\nx.requires_grad_()\ng(x)\n"),
    ("require_input_grad", "«y = net(x)»\n", {"name": "x"}, "x.requires_grad_()\ny = net(x)\n"),
    ("require_input_grad", "for «x» in y: g(x)\n", {"name": "x"}, "for x in y: x.requires_grad_(); g(x)\n"),
    (
        "require_input_grad",
        "«def f(x)»:\n    '''Doc.'''\n    g(x)\n",
        {"name": "x"},
        "def f(x):\n    '''Doc.'''\n    x.requires_grad_()\n    g(x)\n",
    ),
    ("require_input_grad", "x = «a + b»\n", {}, "x = (a + b).requires_grad_()\n"),
    (
        "add_statement",
        "h = «f()»\ng(h)\n",
        {"statement": "h.retain_grad()", "bound": True},
        "h = f()\nh.retain_grad()\ng(h)\n",
    ),
    ("detach_instead", "h = out[-1]\n«h.detach_()»\nuse(h)\n", {}, "h = out[-1]\nh = h.detach()\nuse(h)\n"),
    ("detach_instead", "for p in net:\n    «p.grad.detach_()»\n", {}, "for p in net:\n    p.grad = p.grad.detach()\n"),
    (
        "detach_instead",
        "gs = torch.autograd.grad(y, w)\nfor g in gs:\n    «g.detach_()»\nuse(gs)\n",
        {},
        "gs = torch.autograd.grad(y, w)\ngs = [g.detach() for g in gs]\nuse(gs)\n",
    ),
    (
        "detach_instead",
        "from torch.autograd import grad\ngs = grad(y, w)\nfor i, g in enumerate(gs):\n    «g.detach_()»\n    use(i, g)\n",
        {},
        "from torch.autograd import grad\ngs = grad(y, w)\ngs = [g.detach() for g in gs]\nfor i, g in enumerate(gs):\n    use(i, g)\n",
    ),
]


@pytest.mark.parametrize(("kind", "source", "args", "expected"), FIXED)
def test_fixes(kind, source, args, expected):
    assert fixed(kind, source, **args) == expected
