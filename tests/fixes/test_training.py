"""The fixed programs train exactly as their hand-written right versions do, and the sick ones crash."""

# ruff: noqa: E501  (programs side by side)

from __future__ import annotations

from typing import Any

import pytest
from training import Case, check_built

from graphdoc.finding import COPY, LIST

START = """\
import torch
from torch import nn
import torch.nn.functional as F
torch.manual_seed(0)
net = nn.Linear(3, 3)
other = nn.Linear(3, 3)
nets = [net, other]
opt = torch.optim.SGD([*net.parameters(), *other.parameters()], lr=0.1)
x = torch.ones(2, 3)
h = torch.zeros(2, 3)
"""

# (kind, args, the sick program with its places marked, the right program, how it differs from the usual case)
PROGRAMS: list[tuple[Any, ...]] = [
    (
        "straight_through",
        {},
        "for i in range(3):\n    opt.zero_grad()\n    w = «torch.round(net.weight)»\n    (net.bias + x @ w.T).pow(2).sum().backward()\n    opt.step()\n",
        "for i in range(3):\n    opt.zero_grad()\n    w = net.weight + (torch.round(net.weight) - net.weight).detach()\n    (net.bias + x @ w.T).pow(2).sum().backward()\n    opt.step()\n",
        {"silent": True},
    ),
    (
        "make_in_init",
        {"places": ["@0"]},
        "class Pair(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.a = nn.Linear(3, 3)\n\n    def forward(self, x):\n        return «nn.Linear(3, 2)»(self.a(x))\n\n\ntorch.manual_seed(1)\npair = Pair()\nnets = [pair]\nopt = torch.optim.SGD(pair.parameters(), lr=0.1)\n"
        "for i in range(3):\n    opt.zero_grad()\n    pair(x).pow(2).sum().backward()\n    opt.step()\n",
        "class Pair(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.a = nn.Linear(3, 3)\n        self.linear = nn.Linear(3, 2)\n\n    def forward(self, x):\n        return self.linear(self.a(x))\n\n\ntorch.manual_seed(1)\npair = Pair()\nnets = [pair]\nopt = torch.optim.SGD(pair.parameters(), lr=0.1)\n"
        "for i in range(3):\n    opt.zero_grad()\n    pair(x).pow(2).sum().backward()\n    opt.step()\n",
        {"silent": True},
    ),
    (
        "make_once",
        {},
        "for i in range(3):\n    «opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)»\n    opt.zero_grad()\n    net(x).pow(2).sum().backward()\n    opt.step()\n",
        "opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)\nfor i in range(3):\n    opt.zero_grad()\n    net(x).pow(2).sum().backward()\n    opt.step()\n",
        {"silent": True},
    ),
    (
        "several",
        {
            "edits": [
                {
                    "kind": "rewrite",
                    "args": {
                        "place": "@1",
                        "pairs": [["{it}.register_buffer({n}, {t})", "{it}.register_parameter({n}, {t})"]],
                    },
                },
                {"kind": "drop_keyword", "args": {"place": "@0", "name": "requires_grad"}},
                {"kind": "rewrite", "args": {"place": "@0", "pairs": [["{it}", "{torch.nn.Parameter}({it})"]]}},
            ]
        },
        "table = «torch.zeros(3, requires_grad=True)»\n«net.register_buffer('table', table)»\nopt = torch.optim.SGD(net.parameters(), lr=0.1)\n"
        "for i in range(3):\n    opt.zero_grad()\n    (net(x) + net.table).pow(2).sum().backward()\n    opt.step()\n",
        "net.table = nn.Parameter(torch.zeros(3))\nopt = torch.optim.SGD(net.parameters(), lr=0.1)\n"
        "for i in range(3):\n    opt.zero_grad()\n    (net(x) + net.table).pow(2).sum().backward()\n    opt.step()\n",
        {"silent": True},
    ),
    (
        "detach_after",
        {"paths": ["h"], "first": "after"},
        "for i in range(3):\n    h = torch.tanh(net(x) + h)\n    opt.zero_grad()\n    «h.sum().backward()»\n    opt.step()\n",
        "for i in range(3):\n    h = torch.tanh(net(x) + h.detach())\n    opt.zero_grad()\n    h.sum().backward()\n    opt.step()\n",
    ),
    (
        "detach_expression",
        {"operands": ["h"]},
        "for i in range(3):\n    h = torch.tanh(«net(x) + h»)\n    opt.zero_grad()\n    h.sum().backward()\n    opt.step()\n",
        "for i in range(3):\n    h = torch.tanh(net(x) + h.data)\n    opt.zero_grad()\n    h.sum().backward()\n    opt.step()\n",
    ),
    (
        "merge_backward",
        {"places": ["@0", "@1"], "first": None},
        "y = net(x).relu()\n«y.sum().backward()»\n«other(y).sum().backward()»\nopt.step()\n",
        "y = net(x).relu()\n(y.sum() + other(y).sum()).backward()\nopt.step()\n",
    ),
    (
        "move_into_loop",
        {"loop": "@1"},
        "«y = net(x) ** 2»\nfor i in range(3):\n    opt.zero_grad()\n    «y.sum().backward()»\n    opt.step()\n",
        "for i in range(3):\n    opt.zero_grad()\n    (net(x) ** 2).sum().backward()\n    opt.step()\n",
    ),
    (
        "accumulate_number",
        {"backward": "@1"},
        "total = 0\nfor i in range(3):\n    loss = net(x).pow(2).sum()\n    «total += loss»\n    opt.zero_grad()\n"
        "    «total.backward()»\n    opt.step()\n",
        "for i in range(3):\n    loss = net(x).pow(2).sum()\n    opt.zero_grad()\n    loss.backward()\n    opt.step()\n",
    ),
    (
        "move_statement",
        {"after": "@1"},
        "y = other(net(x)).pow(2).sum()\nz = other(net(x)).sum()\ny.backward()\n«opt.step()»\n«z.backward()»\n",
        "y = other(net(x)).pow(2).sum()\nz = other(net(x)).sum()\ny.backward()\nz.backward()\nopt.step()\n",
    ),
    (
        "clone_parameters",
        {},
        "z = «other(net(x))».sum()\n(net(x).sum() + other(x).sum()).backward()\nopt.step()\nz.backward()\nopt.step()\n",
        "c = nn.Linear(3, 3)\nc.load_state_dict(other.state_dict())\nz = torch.func.functional_call(other, {k: v.clone() for k, v in "
        "other.named_parameters()}, (net(x),)).sum()\n(net(x).sum() + other(x).sum()).backward()\nopt.step()\nz.backward()\nopt.step()\n",
    ),
    (
        "out_of_place",
        {},
        "y = torch.exp(net(x))\n«y += 1»\ny.sum().backward()\nopt.step()\n",
        "(torch.exp(net(x)) + 1).sum().backward()\nopt.step()\n",
    ),
    (
        "out_of_place",
        {},
        "out = torch.zeros(4, 2, 3)\nout[0] = net(x)\nfor t in range(1, 4):\n    «out[t]» = net(out[t - 1]) * out[t - 1]\n"
        "out.sum().backward()\nopt.step()\n",
        "o = [net(x)]\nfor t in range(1, 4):\n    o.append(net(o[-1]) * o[-1])\ntorch.stack(o).sum().backward()\nopt.step()\n",
    ),
    (
        "out_of_place",
        {},
        "y = net(x).exp()\n«y[y > 1]» = 0.0\ny.sum().backward()\nopt.step()\n",
        "y = net(x).exp()\n(y * (y <= 1)).sum().backward()\nopt.step()\n",
    ),
    (
        "out_of_place",
        {},
        "y = net(x).sigmoid()\n«y[:, 0]» = 2\n(y * y).sum().backward()\nopt.step()\n",
        "y = net(x).sigmoid()\ny = torch.cat([torch.full((2, 1), 2.0), y[:, 1:]], 1)\n(y * y).sum().backward()\nopt.step()\n",
    ),
    (
        "join_pieces",
        {},
        "y = net(x) * other(x)\nfor row, s in zip(y, (0.5, 2.0)):\n    «row.sub_(s).mul_(s)»\ny.pow(2).sum().backward()\nopt.step()\n",
        "y = net(x) * other(x)\ns = torch.tensor([[0.5], [2.0]])\n((y - s) * s).pow(2).sum().backward()\nopt.step()\n",
    ),
    (
        "drop_full_slice",
        {},
        "t = torch.zeros_like(net(x))\n«t[0:1][:]» += net(x)[0:1]\nt.pow(2).sum().backward()\nopt.step()\n",
        "net(x)[0:1].pow(2).sum().backward()\nopt.step()\n",
    ),
    (
        "clone_expression",
        {},
        "b = torch.ones(3, 3)\ny = (net(x) @ «b»).sum()\nb.mul_(2)\ny.backward()\nopt.step()\n",
        "(net(x) @ torch.ones(3, 3)).sum().backward()\nopt.step()\n",
    ),
    (
        "under_no_grad_update",
        {},
        "net(x).sum().backward()\n«net.weight -= 0.1 * net.weight.grad»\n",
        "net(x).sum().backward()\nnet.weight.data -= 0.1 * net.weight.grad\n",
    ),
    (
        "stack_instead_of_tensor",
        {},
        "a = net(x).sum()\n«torch.tensor([a, a * 2])».sum().backward()\nopt.step()\n",
        "a = net(x).sum()\n(a * 3).backward()\nopt.step()\n",
    ),
    (
        "drop_call",
        {},
        "a = net(x).sum()\n(«torch.tensor(a.item())» * 2).backward()\nopt.step()\n",
        "a = net(x).sum()\n(a * 2).backward()\nopt.step()\n",
    ),
    (
        "remove_switch",
        {},
        "with torch.no_grad():\n    «y = net(x)»\ny.sum().backward()\nopt.step()\n",
        "net(x).sum().backward()\nopt.step()\n",
    ),
    (
        "set_keyword",
        {"name": "create_graph"},
        "w = net.weight\n(g,) = «torch.autograd.grad(net(x).pow(2).sum(), w)»\ng.pow(2).sum().backward()\nopt.step()\n",
        "w = net.weight\n(g,) = torch.autograd.grad(net(x).pow(2).sum(), w, create_graph=True)\ng.pow(2).sum().backward()\nopt.step()\n",
    ),
    (
        "pad_return",
        {"count": 2},
        "class Scale(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, a, s):\n        ctx.s = s\n        return a * s\n"
        "    @staticmethod\n    def backward(ctx, g):\n        «return g * ctx.s»\n"
        "Scale.apply(net(x), 3.0).sum().backward()\nopt.step()\n",
        "(net(x) * 3.0).sum().backward()\nopt.step()\n",
    ),
    (
        "make_leaf",
        {},
        "w = «torch.ones(3, requires_grad=True) * 2»\no = torch.optim.SGD([w], lr=0.1)\n(net(x) * w).sum().backward()\no.step()\nopt.step()\n",
        "w = torch.full((3,), 2.0, requires_grad=True)\n(net(x) * w).sum().backward()\nopt.step()\n",
    ),
    (
        "drop_weights",
        {},
        "«torch.autograd.backward([net(x).mean()], [torch.ones(1)])»\nopt.step()\n",
        "net(x).mean().backward()\nopt.step()\n",
    ),
    ("reduce_loss", {}, "«net(x).backward()»\nopt.step()\n", "net(x).mean().backward()\nopt.step()\n"),
    (
        "to_numpy",
        {},
        "y = net(x)\nn = «y.numpy()»\n(y * float(n.max())).sum().backward()\nopt.step()\n",
        "y = net(x)\n(y * y.max().item()).sum().backward()\nopt.step()\n",
    ),
    (
        "swap_switch",
        {},
        "with «torch.inference_mode()»:\n    y = other(x)\nnet(y).sum().backward()\nopt.step()\n",
        "y = other(x).detach()\nnet(y).sum().backward()\nopt.step()\n",
    ),
    (
        "uncache",
        {},
        "c = {}\nfor i in range(2):\n    if 0 not in c: c[0] = «net(x)»\n    opt.zero_grad()\n    c[0].pow(2).sum().backward()\n    opt.step()\n",
        "for i in range(2):\n    opt.zero_grad()\n    net(x).pow(2).sum().backward()\n    opt.step()\n",
    ),
    (
        "set_keyword",
        {"name": "retain_graph"},
        "y = net(x).pow(2).sum()\n(g,) = «torch.autograd.grad(y, net.weight)»\n(y * g.sum()).backward()\nopt.step()\n",
        "y = net(x).pow(2).sum()\n(g,) = torch.autograd.grad(net(x).pow(2).sum(), net.weight)\n(y * g.sum()).backward()\nopt.step()\n",
    ),
    (
        "require_input_grad",
        {"name": "v"},
        "«v = x * 2»\n(g,) = torch.autograd.grad(net(v).tanh().sum(), v, create_graph=True)\ng.pow(2).sum().backward()\nopt.step()\n",
        "v = torch.full((2, 3), 2.0, requires_grad=True)\n(g,) = torch.autograd.grad(net(v).tanh().sum(), v, create_graph=True)\n"
        "g.pow(2).sum().backward()\nopt.step()\n",
    ),
    (
        "drop_keyword",
        {"name": "create_graph"},
        "«net(x).pow(2).sum().backward(create_graph=True)»\nlog = net.weight.grad.numpy()\nopt.step()\n",
        "net(x).pow(2).sum().backward()\nopt.step()\n",
    ),
    (
        "remove_switch",
        {"name": "no_grad"},
        "«@torch.no_grad()\ndef loss(x):\n    return net(x).pow(2).sum()»\nloss(x).backward()\nopt.step()\n",
        "net(x).pow(2).sum().backward()\nopt.step()\n",
    ),
    (
        "rsample",
        {},
        "torch.manual_seed(step)\nmu = net(x)\na = «torch.distributions.Normal(mu, 0.5).sample()»\na.pow(2).sum().backward()\nopt.step()\n",
        "torch.manual_seed(step)\na = net(x) + torch.normal(torch.zeros(2, 3), torch.ones(2, 3)) * 0.5\na.pow(2).sum().backward()\nopt.step()\n",
    ),
    (
        "log_prob_surrogate",
        {"loss": "@1"},
        "dist = torch.distributions.Categorical(logits=net(x))\naction = «dist.sample()»\nreward = torch.arange(3.0)[action]\n"
        "loss = -reward.mean()\n«loss.backward()»\nopt.step()\n",
        "logits = net(x)\naction = torch.multinomial(logits.detach().softmax(-1), 1, True).squeeze(1)\n"
        "cost = -torch.arange(3.0)[action] / len(x)\n(F.cross_entropy(logits, action, reduction='none') * -cost).sum().backward()\nopt.step()\n",
        {"near": "the mean is taken elsewhere"},
    ),
    (
        "add_statement",
        {"statement": "scaler.update()", "before": True},
        "scaler = torch.amp.GradScaler('cpu', init_scale=8.0)\nfor i in range(4):\n    opt.zero_grad()\n"
        "    scaler.scale(net(x * (float('inf') if i == 1 else 1.0)).pow(2).sum()).backward()\n    scaler.unscale_(opt)\n"
        "    if not net.weight.grad.isfinite().all():\n        «continue»\n    scaler.step(opt)\n    scaler.update()\n",
        "for i in range(3):\n    opt.zero_grad()\n    net(x).pow(2).sum().backward()\n    opt.step()\n",
        {"near": "scaled and unscaled again"},
    ),
    (
        "add_statement",
        {"statement": "opt.step()"},
        "opt = torch.optim.SGD(net.parameters(), lr=0.1)\nfor i in range(3):\n    opt.zero_grad()\n"
        "    «net(x).pow(2).sum().backward()»\n",
        "opt = torch.optim.SGD(net.parameters(), lr=0.1)\nfor i in range(3):\n    opt.zero_grad()\n"
        "    net(x).pow(2).sum().backward()\n    opt.step()\n",
        {"silent": True},
    ),
    (
        "rewrite",
        {"pairs": LIST},
        "named = «net.named_parameters()»\nfor n, p in named: p.requires_grad = False\n"
        "for n, p in named: p.requires_grad = True\nopt = torch.optim.SGD(net.parameters(), lr=0.1)\n"
        "for i in range(3):\n    opt.zero_grad()\n    loss = net(x).pow(2).sum()\n    loss.requires_grad_()\n"
        "    loss.backward()\n    opt.step()\n",
        "opt = torch.optim.SGD(net.parameters(), lr=0.1)\nfor i in range(3):\n    opt.zero_grad()\n"
        "    net(x).pow(2).sum().backward()\n    opt.step()\n",
        {"silent": True},
    ),
    (
        "rewrite",
        {"pairs": [["{left} != 0", "{left} == 0"], ["{left}", "{left} == 0"]]},
        "opt = torch.optim.SGD(net.parameters(), lr=0.1)\nfor i in range(3):\n    net(x).pow(2).sum().backward()\n"
        "    if «i % 1»:\n        opt.step()\n        opt.zero_grad()\n",
        "opt = torch.optim.SGD(net.parameters(), lr=0.1)\nfor i in range(3):\n    opt.zero_grad()\n"
        "    net(x).pow(2).sum().backward()\n    opt.step()\n",
        {"silent": True},
    ),
    (
        "rewrite",
        {"pairs": [["{module}.requires_grad = {flag}", "{module}.requires_grad_({flag})"]]},
        "«net.requires_grad = False»\nopt = torch.optim.SGD([*net.parameters(), *other.parameters()], lr=0.1)\n"
        "for i in range(4):\n    opt.zero_grad()\n    other(net(x).tanh()).pow(2).sum().backward()\n    opt.step()\n",
        "opt = torch.optim.SGD(other.parameters(), lr=0.1)\n"
        "for i in range(4):\n    opt.zero_grad()\n    other(net(x).tanh()).pow(2).sum().backward()\n    opt.step()\n",
        {"silent": True},
    ),
    (
        "use_instead",
        {"operand": "model.module", "name": "model", "inside": True},
        "class Half(nn.Module):\n    def __init__(self, module):\n        super().__init__()\n        self.module = module\n"
        "    def forward(self, x):\n        return self.module(x) / 2\n"
        "model = Half(net)\nopt = torch.optim.SGD(model.parameters(), lr=0.1)\nfor i in range(3):\n    opt.zero_grad()\n"
        "    «model.module(x)».pow(2).sum().backward()\n    opt.step()\n",
        "opt = torch.optim.SGD(net.parameters(), lr=0.1)\nfor i in range(3):\n    opt.zero_grad()\n"
        "    (net(x) / 2).pow(2).sum().backward()\n    opt.step()\n",
        {"silent": True},
    ),
    (
        "call_directly",
        {},
        "from torch.utils.checkpoint import checkpoint\n"
        "def block(rows, seen=[]):\n    seen.append(rows)\n    return net(torch.cat(seen)[-3:]).tanh().sum(0)\n"
        "for i in range(3):\n    opt.zero_grad()\n"
        "    «checkpoint(block, x, use_reentrant=False, preserve_rng_state=True, seen=[])».pow(2).sum().backward()\n"
        "    opt.step()\n",
        "for i in range(3):\n    opt.zero_grad()\n    net(x).tanh().sum(0).pow(2).sum().backward()\n    opt.step()\n",
    ),
    (
        "rewrite",
        {"pairs": [["{it}", "goal = {it}"]]},
        "for i in range(3):\n    opt.zero_grad()\n    goal = net(x + 1)\n    «goal.detach()»\n"
        "    (net(x) - 0.9 * goal).pow(2).sum().backward()\n    opt.step()\n",
        "for i in range(3):\n    opt.zero_grad()\n    (net(x) - 0.9 * net(x + 1).detach()).pow(2).sum().backward()\n"
        "    opt.step()\n",
        {"silent": True},
    ),
    (
        "rewrite",
        {"pairs": [["{it}", "y = {it}"]]},
        "class Add(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, y, z):\n        return y\n\n"
        "    @staticmethod\n    def backward(ctx, grad):\n        return grad, torch.ones(())\n\n"
        "for i in range(3):\n    opt.zero_grad()\n    y = net(x)\n    «Add.apply(y, y.pow(2).sum())»\n"
        "    y.sum().backward()\n    opt.step()\n",
        "for i in range(3):\n    opt.zero_grad()\n    y = net(x)\n    (y.sum() + y.pow(2).sum()).backward()\n"
        "    opt.step()\n",
        {"silent": True},
    ),
    (
        "probability_for_decision",
        {},
        "for i in range(3):\n    opt.zero_grad()\n    p = net(x).sigmoid()\n    hit = («p > 0.5»).float()\n"
        "    (1 - hit.sum() / (hit.sum() + 1)).backward()\n    opt.step()\n",
        "for i in range(3):\n    opt.zero_grad()\n    p = net(x).sigmoid().sum()\n"
        "    (1 - p / (p + 1)).backward()\n    opt.step()\n",
    ),
    (
        "use_instead",
        {"operand": "torch.zeros", "name": "row.new_zeros", "inside": True, "same": True},
        "def squared(row):\n    total = «torch.zeros(3)»\n    total += net(row).pow(2)\n    return total.sum()\n"
        "torch.vmap(squared)(x).sum().backward()\nopt.step()\n",
        "net(x).pow(2).sum().backward()\nopt.step()\n",
        {"near": "rows are added up in another order"},
    ),
    (
        "pass_captured",
        {"calling": "@1", "name": "seen"},
        "seen = torch.zeros(())\nweights = dict(net.named_parameters())\n"
        "def loss(weights, x):\n    value = torch.func.functional_call(net, weights, (x,)).pow(2).mean()\n"
        "    «seen.add_(value)»\n    return value\n"
        "for i in range(3):\n    gradients = «torch.func.grad(loss)(weights, x)»\n"
        "    for name, p in net.named_parameters():\n        p.grad = gradients[name]\n    opt.step()\n",
        "for i in range(3):\n    opt.zero_grad()\n    net(x).pow(2).mean().backward()\n    opt.step()\n",
        {"near": "torch.func adds in another order"},
    ),
    (
        "rewrite",
        {"pairs": COPY},
        "target = «net»\nopt = torch.optim.SGD(net.parameters(), lr=0.1)\nfor i in range(3):\n    opt.zero_grad()\n"
        "    (net(x) - 0.9 * target(x + 1)).pow(2).sum().backward()\n    opt.step()\n"
        "    target.load_state_dict(net.state_dict())\n",
        "import copy\ntarget = copy.deepcopy(net)\nopt = torch.optim.SGD(net.parameters(), lr=0.1)\n"
        "for i in range(3):\n    opt.zero_grad()\n    (net(x) - 0.9 * target(x + 1).detach()).pow(2).sum().backward()\n"
        "    opt.step()\n    target.load_state_dict(net.state_dict())\n",
        {"silent": True},
    ),
    (
        "rewrite",
        {"pairs": [["list({it})", "[p.detach().clone() for p in {it}]"]]},
        "old = «list(net.parameters())»\nopt = torch.optim.SGD(net.parameters(), lr=0.1)\nfor i in range(3):\n"
        "    opt.zero_grad()\n    near = sum(((p - q) ** 2).sum() for p, q in zip(net.parameters(), old))\n"
        "    (net(x).pow(2).sum() + near).backward()\n    opt.step()\n",
        "old = [p.clone().detach() for p in net.parameters()]\nopt = torch.optim.SGD(net.parameters(), lr=0.1)\n"
        "for i in range(3):\n    opt.zero_grad()\n"
        "    near = sum(((p - q) ** 2).sum() for p, q in zip(net.parameters(), old))\n"
        "    (net(x).pow(2).sum() + near).backward()\n    opt.step()\n",
        {"silent": True},
    ),
    (
        "rewrite",
        {"pairs": [["dict({it})", "{name: p.detach().clone() for name, p in {it}}"]]},
        "old = «dict(net.named_parameters())»\nopt = torch.optim.SGD(net.parameters(), lr=0.1)\nfor i in range(3):\n"
        "    opt.zero_grad()\n    near = sum(((p - old[n]) ** 2).sum() for n, p in net.named_parameters())\n"
        "    (net(x).pow(2).sum() + near).backward()\n    opt.step()\n",
        "old = {n: p.clone().detach() for n, p in net.named_parameters()}\n"
        "opt = torch.optim.SGD(net.parameters(), lr=0.1)\nfor i in range(3):\n    opt.zero_grad()\n"
        "    near = sum(((p - old[n]) ** 2).sum() for n, p in net.named_parameters())\n"
        "    (net(x).pow(2).sum() + near).backward()\n    opt.step()\n",
        {"silent": True},
    ),
    (
        "rewrite",
        {"pairs": [["{it}", "{it}.detach().clone()"]]},
        "old = [«p» for p in net.parameters()]\nopt = torch.optim.SGD(net.parameters(), lr=0.1)\nfor i in range(3):\n"
        "    opt.zero_grad()\n    near = sum(((p - q) ** 2).sum() for p, q in zip(net.parameters(), old))\n"
        "    (net(x).pow(2).sum() + near).backward()\n    opt.step()\n",
        "old = [p.clone().detach() for p in net.parameters()]\nopt = torch.optim.SGD(net.parameters(), lr=0.1)\n"
        "for i in range(3):\n    opt.zero_grad()\n"
        "    near = sum(((p - q) ** 2).sum() for p, q in zip(net.parameters(), old))\n"
        "    (net(x).pow(2).sum() + near).backward()\n    opt.step()\n",
        {"silent": True},
    ),
    (
        "rewrite",
        {"pairs": [["{p} = {new}", "{p}.detach().copy_({new})"]]},
        "for i in range(3):\n    opt.zero_grad()\n    net(x).pow(2).sum().backward()\n    with torch.no_grad():\n"
        "        for p in net.parameters():\n            «p = p - 0.1 * p.grad»\n",
        "for i in range(3):\n    opt.zero_grad()\n    net(x).pow(2).sum().backward()\n    with torch.no_grad():\n"
        "        for p in net.parameters():\n            p -= 0.1 * p.grad\n",
        {"silent": True},
    ),
    (
        "several",
        {
            "edits": [
                {"kind": "add_statement", "args": {"place": "@0", "statement": "loss = 0.0", "before": True}},
                {"kind": "rewrite", "args": {"place": "@1", "pairs": [["{sum} = {x}", "{sum} = {sum} + {x}"]]}},
            ]
        },
        "for i in range(3):\n    opt.zero_grad()\n    for part in «(net, other)»:\n        «loss = part(x).pow(2).sum()»\n"
        "    loss.backward()\n    opt.step()\n",
        "for i in range(3):\n    opt.zero_grad()\n    (net(x).pow(2).sum() + other(x).pow(2).sum()).backward()\n"
        "    opt.step()\n",
        {"silent": True},
    ),
    (
        "rewrite",
        {"pairs": [["[{p} for {p} in {all} if {_}]", "{all}"]]},
        "net.requires_grad_(False)\nopt = torch.optim.SGD(\n    «[p for p in nn.Sequential(net, other).parameters() if p.requires_grad]», lr=0.1)\n"
        "for i in range(4):\n    if i == 2: net.requires_grad_(True)\n    opt.zero_grad()\n    other(net(x).tanh()).pow(2).sum().backward()\n    opt.step()\n",
        "net.requires_grad_(False)\nopt = torch.optim.SGD(other.parameters(), lr=0.1)\nfor i in range(4):\n    if i == 2:\n"
        "        net.requires_grad_(True)\n        opt.add_param_group({'params': net.parameters()})\n    opt.zero_grad()\n"
        "    other(net(x).tanh()).pow(2).sum().backward()\n    opt.step()\n",
        {"silent": True},
    ),
    (
        "module_list",
        {},
        "class Deep(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.layers = «[net, nn.Tanh()]»\n"
        "        self.out = other\n    def forward(self, x):\n        for layer in self.layers: x = layer(x)\n        return self.out(x)\n"
        "deep = Deep()\nopt = torch.optim.Adam(deep.parameters())\nfor i in range(3):\n    opt.zero_grad()\n    deep(x).pow(2).sum().backward()\n    opt.step()\n",
        "opt = torch.optim.Adam([*net.parameters(), *other.parameters()])\nfor i in range(3):\n    opt.zero_grad()\n"
        "    other(net(x).tanh()).pow(2).sum().backward()\n    opt.step()\n",
        {"silent": True},
    ),
]


def case(kind: str, args: dict[str, Any], sick: str, right: str, more: dict[str, Any] | None = None) -> Case:
    """Those that bring no loop of their own are looped."""
    return Case(kind, sick, right, START, loop="for i in" not in sick, args=args, **(more or {}))


CASES = [case(*p) for p in PROGRAMS]


@pytest.mark.parametrize("case", CASES, ids=[f"{c.name}-{i}" for i, c in enumerate(CASES)])
def test_trains_as_the_right_version(case: Case) -> None:
    check_built(case)
