"""Edits on one call: keywords, cloned parameters; and several edits as one patch."""

from __future__ import annotations

import pytest
from marked import fixed

from graphdoc.fixes.fix_kind import CannotFix

REFUSED = [
    ("drop_keyword", "«f(a, b=1)»\n", {"name": "c"}, "has no c"),
    ("drop_keyword", "x = «a + b»\n", {"name": "c"}, "not a call"),
    ("set_keyword", "«f(a=True)»\n", {"name": "a", "value": "True"}, "already"),
    ("clone_parameters", "import torch\ny = «nets()(x)»\n", {}, "no name"),
    ("clone_parameters", "import torch\ny = «torch.tanh(x)»\n", {}, "function"),
    (
        "pass_captured",
        "def f(x):\n    «total.add_(x)»\n    return x.sum()\n\ntotal = make()\nf(1)\ng = «grad(f)(x)»\n",
        {"calling": "@1", "name": "total"},
        "used in other places",
    ),
    (
        "pass_captured",
        "def f(x):\n    total = make()\n    «total.add_(x)»\n    return x.sum()\n\ng = «grad(f)(x)»\n",
        {"calling": "@1", "name": "total"},
        "not known where",
    ),
    (
        "pass_captured",
        "def f(x, *rest):\n    «total.add_(x)»\n    return x.sum()\n\ntotal = make()\ng = «grad(f)(x)»\n",
        {"calling": "@1", "name": "total"},
        "not every argument",
    ),
    ("several", "y = «x.detach()»\n", {"edits": [{"kind": "detach_expression", "args": {"place": "@0"}}]}, "already"),
    ("several", "«f(x)»\n", {"edits": []}, "no edit"),
    *(
        ("bound_name", source, {"name": "a", "guard": "clamp_max(20.0)"}, "not bound in one place")
        for source in (
            "def f(x, big):\n    a = x\n    if big:\n        a = 2 * x\n    return «a.exp()» - a\n",
            "def f(a):\n    a = 2 * a\n    return «a.exp()» - a\n",
            "def f(xs):\n    for a in xs:\n        total = «a.exp()» - a\n    return total\n",
            "f = lambda a: «a.exp()» - a\n",
        )
    ),
    (
        "bound_name",
        "a = leaf()\nfor x in xs:\n    loss = «a.exp()» - a\n",
        {"name": "a", "guard": "clamp_max(20.0)"},
        "in each round",
    ),
    *(
        ("mean_of_some", source, {}, reason)
        for source, reason in (
            ("loss = «x[m].mean()»\n", "which of its targets count"),
            ("ce = nn.CrossEntropyLoss(weight=w)\nloss = «ce(x, t)»\n", "which of its targets count"),
            ("ce = nn.CrossEntropyLoss(ignore_index=pad)\nloss = «ce(x, t)»\n", "which target is ignored"),
            ("ce = nn.CrossEntropyLoss()\nloss = «ce(x, t)»\nprint(ce(x, t))\n", "which of its targets count"),
            ("def f(ce):\n    return «ce(x, t)»\n", "which of its targets count"),
        )
    ),
    ("guard_operand", "y = «p * p.log()»\n", {"guard": "masked_fill({operand}.isneginf(), 0.0)", "side": 1}, "twice"),
    *(
        ("log_sum_exp", f"import torch\n{source}\n", {}, reason)
        for source, reason in (
            ("y = torch.log(b + «torch.exp(a)»)", "the other term"),
            ("y = torch.log(-1 + «torch.exp(a)»)", "the other term"),
            ("y = torch.sqrt(1 + «torch.exp(a)»)", "not taken where it can be seen"),
            ("e = «torch.exp(a)»\ny = torch.log(1 + e) - e", "something else"),
            ("e = «torch.exp(a)»\nif low:\n    e = b\ny = torch.log(1 + e)", "something else"),
        )
    ),
    ("several", "«f(x)»\n", {"edits": [{"kind": "no_such", "args": {}}]}, "no kind of fix called 'no_such'"),
]


@pytest.mark.parametrize(("kind", "source", "args", "reason"), REFUSED)
def test_refuses(kind, source, args, reason):
    with pytest.raises(CannotFix, match=reason):
        fixed(kind, source, **args)


FIXED = [
    (
        "mean_of_some",
        "class A:\n    def __init__(self):\n        self.ce = nn.NLLLoss(ignore_index=0)\n\n"
        "    def loss(self, x, t):\n        return «self.ce(x, t)»\n",
        {},
        'class A:\n    def __init__(self):\n        self.ce = nn.NLLLoss(ignore_index=0, reduction="sum")\n\n'
        "    def loss(self, x, t):\n        return self.ce(x, t) / (t != 0).sum().clamp(min=1)\n",
    ),
    (
        "finite_fill",
        "import torch as th\ny = «x.masked_fill(m, float('-inf'))»\n",
        {},
        "import torch as th\ny = x.masked_fill(m, th.finfo(x.dtype).min)\n",
    ),
    (
        "spread_diagonal",
        "import torch as th\nw, v = «th.linalg.eigh(a)»\n",
        {"jitter": "JITTER"},
        "import torch as th\nw, v = th.linalg.eigh(a + JITTER * th.arange(a.shape[-1]).to(a).diag())\n",
    ),
    (
        "guard_operand",
        "import torch as th\ny = «th.log(p)»\n",
        {"guard": "clamp_min(1e-12)"},
        "import torch as th\ny = th.log(p.clamp_min(1e-12))\n",
    ),
    (
        "guard_operand",
        "import torch\ny = «torch.sigmoid(x).log()»\n",
        {"guard": "clamp_min(1e-12)"},
        "import torch\ny = torch.sigmoid(x).clamp_min(1e-12).log()\n",
    ),
    (
        "guard_operand",
        "def f(F):\n    return «F.log()»\n",
        {"guard": "clamp_min(1e-12)"},
        "def f(F):\n    return F.clamp_min(1e-12).log()\n",
    ),
    (
        "guard_operand",
        "import torch as th\ny = «th.acos(th.clamp(x, -1, 1))»\n",
        {"guard": "clamp(-0.9, 0.9)"},
        "import torch as th\ny = th.acos(x.clamp(-0.9, 0.9))\n",
    ),
    (
        "guard_operand",
        "h = -(«p * logs»).sum(-1)\n",
        {"guard": "masked_fill({operand}.isneginf(), 0.0)", "side": 1},
        "h = -(p * logs.masked_fill(logs.isneginf(), 0.0)).sum(-1)\n",
    ),
    (
        "bound_name",
        'def f(x, a):\n    """A loss."""\n    y = x + a\n    return «(-a).exp()» * y + a\n',
        {"name": "a", "guard": "clamp_min(-20.0)"},
        'def f(x, a):\n    """A loss."""\n    a = a.clamp_min(-20.0)\n    y = x + a\n    return (-a).exp() * y + a\n',
    ),
    (
        "bound_name",
        "for x in xs:\n    m, a = net(x).chunk(2)\n    loss = (m * «a.exp()» - a).mean()\n",
        {"name": "a", "guard": "clamp_max(20.0)"},
        "for x in xs:\n    m, a = net(x).chunk(2)\n    a = a.clamp_max(20.0)\n    loss = (m * a.exp() - a).mean()\n",
    ),
    (
        "where_twice",
        "import torch as th\ny = th.where(m, «x.log()», z)\n",
        {"branches": [{"place": "@0", "safe": "1.0"}]},
        "import torch as th\ny = th.where(m, th.where(m, x, 1.0).log(), z)\n",
    ),
    (
        "where_twice",
        "import torch as th\ny = th.where(x > 2, «(x - 1).log()», z)\n",
        {"branches": [{"place": "@0", "safe": "1.0"}]},
        "import torch as th\nx_inside = th.where(x > 2, x, 4.0)\ny = th.where(x > 2, (x_inside - 1).log(), z)\n",
    ),
    (
        "where_twice",
        "from torch import where\ny = where(m, «x.log()», z)\n",
        {"branches": [{"place": "@0", "safe": "1.0"}]},
        "from torch import where\ny = where(m, where(m, x, 1.0).log(), z)\n",
    ),
    (
        "where_twice",
        "import torch\nb = x.sqrt()\na = b + 1\ny = «a / b»\no = torch.ones_like(b)\nz = torch.where(x > 0, y, o)\n",
        {"branches": [{"place": "@0", "safe": "1.0"}]},
        "import torch\nx_y = torch.where(x > 0, x, 1.0)\nb = x_y.sqrt()\na = b + 1\ny = a / b\n"
        "o = torch.ones_like(b)\nz = torch.where(x > 0, y, o)\n",
    ),
    (
        "where_twice",
        "import torch\nb = x.sqrt()\ny = «a / b»\nz = torch.where(x > 0, y, b)\n",
        {"branches": [{"place": "@0", "safe": "1.0"}]},
        "import torch\nb = x.sqrt()\ny = a / torch.where(x > 0, b, 1.0)\nz = torch.where(x > 0, y, b)\n",
    ),
    (
        "log_sum_exp",
        "import torch\np = «torch.exp(a - b)»\nloss = -torch.log(p).mean() + 2 * p.log()\n",
        {},
        "import torch\np = a - b\nloss = -p.mean() + 2 * p\n",
    ),
    (
        "log_sum_exp",
        "loss = 2 * «(a - b).exp()».log()\n",
        {},
        "loss = 2 * (a - b)\n",
    ),
    (
        "log_sum_exp",
        "import torch as th\ny = th.log(th.sum(«th.exp(x)», 1))\n",
        {},
        "import torch as th\ny = th.logsumexp(x, dim=1)\n",
    ),
    (
        "log_sum_exp",
        "import torch\ny = «x.exp()».sum(1).log()\n",
        {},
        "import torch\ny = torch.logsumexp(x, dim=1)\n",
    ),
    *(
        (
            "log_sum_exp",
            f"import torch\nimport torch.nn.functional as F\n{sick}\n",
            {},
            f"import torch\nimport torch.nn.functional as F\n{mended}\n",
        )
        for sick, mended in (
            ("y = torch.log(1 + «torch.exp(-a)»)", "y = F.softplus(-a)"),
            ("y = torch.log(«torch.exp(f(a))» + 1.0)", "y = F.softplus(f(a))"),
            ("y = torch.log1p(«torch.exp(a)»)", "y = F.softplus(a)"),
            ("y = («a.exp()» + 1).log()", "y = F.softplus(a)"),
            ("y = torch.log(«a.exp()» + b.exp())", "y = torch.logaddexp(a, b)"),
            ("y = torch.log(1 + «a.exp()» + torch.exp(b))", "y = torch.logaddexp(F.softplus(a), b)"),
            ("y = torch.log(1 + «x.exp()».sum(1))", "y = F.softplus(torch.logsumexp(x, dim=1))"),
            ("e = «torch.exp(a)»\ny = torch.log(1 + e)", "e = a\ny = F.softplus(e)"),
            ("s = 1 + «torch.exp(a)»\ny = s.log().mean() + torch.log(s)", "s = F.softplus(a)\ny = s.mean() + s"),
        )
    ),
    (
        "log_sum_exp",
        "import math\nimport torch\ny = torch.log(«torch.exp(a)» + 1e-6)\n",
        {},
        "import math\nimport torch\ny = torch.nn.functional.softplus(a - math.log(1e-6)) + math.log(1e-6)\n",
    ),
    (
        "log_prob_surrogate",
        "import torch as th\na = «d.sample()»\nloss = th.mean(r)\n«loss.backward()»\n",
        {"loss": "@1"},
        "import torch as th\na = d.sample()\nloss = th.mean(d.log_prob(a) * r)\nloss.backward()\n",
    ),
    (
        "straight_through",
        "import torch as th\ny = «th.round(x)» * w\n",
        {},
        "import torch as th\ny = (x + (th.round(x) - x).detach()) * w\n",
    ),
    (
        "soften_comparison",
        "import torch as th\ny = («p > t»).float()\n",
        {"width": "WIDTH"},
        "import torch as th\ny = th.sigmoid((p - t) / WIDTH).float()\n",
    ),
    (
        "spread_diagonal",
        "import torch\nw, v = «torch.linalg.eigh(a @ a.T)»\n",
        {"jitter": "JITTER"},
        "import torch\nmatrix = a @ a.T\n"
        "w, v = torch.linalg.eigh(matrix + JITTER * torch.arange(matrix.shape[-1]).to(matrix).diag())\n",
    ),
    ("set_keyword", "«loss.backward()»\n", {"name": "create_graph"}, "loss.backward(create_graph=True)\n"),
    ("set_keyword", "«f(a=False)»\n", {"name": "a", "value": True}, "f(a=True)\n"),
    ("set_keyword", "«f(x for x in y)»\n", {"name": "a"}, "f((x for x in y), a=True)\n"),
    (
        "set_keyword",
        "«f(\n    (a),\n    (b),  # why\n)»\n",
        {"name": "c"},
        "f(\n    (a),\n    (b),  # why\n    c=True,\n)\n",
    ),
    ("set_keyword", "«f(\n    a,\n    b,\n)»\n", {"name": "c"}, "f(\n    a,\n    b,\n    c=True,\n)\n"),
    ("set_keyword", "«f(\n    a, b,  # why\n)»\n", {"name": "c"}, "f(\n    a, b, c=True,  # why\n)\n"),
    ("set_keyword", "«f(\n    a,  # x\n    b\n)»\n", {"name": "c"}, "f(\n    a,  # x\n    b,\n    c=True\n)\n"),
    ("drop_keyword", "«f(b=1)»\n", {"name": "b"}, "f()\n"),
    ("drop_keyword", "«f(b=(1),)»\n", {"name": "b"}, "f()\n"),
    ("drop_keyword", "«f(b=1, *a)»\n", {"name": "b"}, "f(*a)\n"),
    ("drop_keyword", "«f(a, b=1, c=2)»\n", {"name": "b"}, "f(a, c=2)\n"),
    ("drop_keyword", "«f(a, b=1)»  # c\n", {"name": "b"}, "f(a)  # c\n"),
    (
        "drop_keyword",
        "«f(\n    a,  # kept\n    b=1,  # gone\n)»\n",
        {"name": "b"},
        "f(\n    a,  # kept\n)\n",
    ),
    ("drop_keyword", "«f(a,  # kept\n  b=1)»\n", {"name": "b"}, "f(a,  # kept\n  )\n"),
    (
        "clone_parameters",
        "import torch\ny = «net(x)»\n",
        {},
        "import torch\ny = torch.func.functional_call(net, {k: v.clone() for k, v in net.named_parameters()}, (x,))\n",
    ),
    (
        "clone_parameters",
        "import torch as th\ny = «self.net.forward(x, *r, m=(a), **kw)»[0]\n",
        {},
        "import torch as th\ny = th.func.functional_call(self.net, "
        '{k: v.clone() for k, v in self.net.named_parameters()}, (x, *r), {"m": a, **kw})[0]\n',
    ),
    (
        "clone_parameters",
        "from torch.func import functional_call\ny = «net()»\n",
        {},
        "from torch.func import functional_call\n"
        "y = functional_call(net, {k: v.clone() for k, v in net.named_parameters()}, ())\n",
    ),
    (
        "clone_parameters",
        "import torch\ny = «net(x, m=a)»\n",
        {"untied": True},
        "import torch\ny = torch.func.functional_call(net, {k: v.clone() for k, v in net.named_parameters()}, (x,), "
        '{"m": a}, tie_weights=False)\n',
    ),
    (
        "clone_parameters",
        '"""Doc."""\nfrom __future__ import annotations\nimport os\n\ny = «net(x)»\n',
        {},
        '"""Doc."""\nfrom __future__ import annotations\nimport os\nimport torch\n\n'
        "y = torch.func.functional_call(net, {k: v.clone() for k, v in net.named_parameters()}, (x,))\n",
    ),
    (
        "pass_captured",
        "total = make()\n\ndef f(x):\n    «total.add_(x)»\n    return x.sum()\n\ng = «grad(f)(x)»\n",
        {"calling": "@1", "name": "total"},
        "total = make()\n\ndef f(x, total):\n    total.add_(x)\n    return x.sum()\n\ng = grad(f)(x, total=total)\n",
    ),
    (
        "pass_captured",
        "def f(p, x):\n    return «functional_call(net, p, (x,))».sum()\n\nnet = make()\ng = «grad(f)(p, x)»\n",
        {"calling": "@1"},
        "def f(p, x, buffers):\n    return functional_call(net, (p, buffers), (x,)).sum()\n\nnet = make()\n"
        "g = grad(f)(p, x, buffers=dict(net.named_buffers()))\n",
    ),
    (
        "several",
        "mem = «f(mem)»\nspk = «g(spk)»\n«loss.backward(retain_graph=True)»\n",
        {
            "edits": [
                {"kind": "detach_expression", "args": {"place": "@0"}},
                {"kind": "detach_expression", "args": {"place": "@1"}},
                {"kind": "detach_expression", "args": {"place": "@1"}},
                {"kind": "drop_keyword", "args": {"place": "@2", "name": "retain_graph"}},
            ]
        },
        "mem = f(mem).detach()\nspk = g(spk).detach()\nloss.backward()\n",
    ),
    # both need the import, which is added once
    (
        "several",
        "y = «net(x)»\nz = «fc(x)»\n",
        {
            "edits": [
                {"kind": "clone_parameters", "args": {"place": "@0"}},
                {"kind": "clone_parameters", "args": {"place": "@1"}},
            ]
        },
        "import torch\n"
        "y = torch.func.functional_call(net, {k: v.clone() for k, v in net.named_parameters()}, (x,))\n"
        "z = torch.func.functional_call(fc, {k: v.clone() for k, v in fc.named_parameters()}, (x,))\n",
    ),
]


@pytest.mark.parametrize(("kind", "source", "args", "expected"), FIXED)
def test_fixes(kind, source, args, expected):
    assert fixed(kind, source, **args) == expected


def test_several_fails_as_a_whole():
    two = [
        {"kind": "detach_expression", "args": {"place": "@0"}},
        {"kind": "drop_keyword", "args": {"place": "@0", "name": "no_such"}},
    ]
    with pytest.raises(CannotFix, match="no_such"):
        fixed("several", "h = «f(h)»\n", edits=two)
