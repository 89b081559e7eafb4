"""What graphdoc proposes where a graph from before is met again trains exactly as the right version does."""

from __future__ import annotations

from pathlib import Path

import pytest
from training import NETS, Case, check_proposed

CELL = """\
import torch
from torch import nn

torch.manual_seed(0)
cell, head = nn.GRUCell(2, 4), nn.Linear(4, 1)
nets = [cell, head]
opt = torch.optim.Adam([*cell.parameters(), *head.parameters()], lr=0.01)
xs = torch.randn(4, 1, 2)
"""

CASES = [
    Case(
        "add_statement",
        start="""\
        import torch
        from torch import nn

        torch.manual_seed(0)
        xs, nets = torch.randn(4, 3, 5), []
        """,
        sick="""\
        class Leaky(nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = nn.Linear(5, 5)
                self.v = torch.zeros(3, 5)

            def forward(self, x):
                self.v = 0.5 * self.v + self.inner(x)
                return torch.tanh(self.v)

        net = nn.Sequential(*(Leaky() for _ in range(6)))
        nets.append(net)
        opt = torch.optim.SGD(net.parameters(), lr=0.1)
        for x in xs:
            opt.zero_grad()
            net(x).square().mean().backward()
            opt.step()
        """,
        right="""\
        layers = [nn.Linear(5, 5) for _ in range(6)]
        nets.append(nn.Sequential(*layers))
        opt = torch.optim.SGD([p for layer in layers for p in layer.parameters()], lr=0.1)
        state = [torch.zeros(3, 5) for _ in layers]
        for x in xs:
            opt.zero_grad()
            for i, layer in enumerate(layers):
                state[i] = 0.5 * state[i] + layer(x)
                x = torch.tanh(state[i])
            x.square().mean().backward()
            opt.step()
            state = [v.detach() for v in state]
        """,
    ),
    Case(
        "add_statement",
        start="""\
        import torch
        from torch import nn

        torch.manual_seed(0)
        xs, nets = torch.randn(4, 3, 5), []
        """,
        sick="""\
        class Trace:
            def __init__(self):
                self.past = torch.zeros(0, 3, 5)

            def mean(self, x):
                self.past = torch.cat([self.past, x[None]])
                return self.past.mean(0)

        class Out:
            def __init__(self, y, traces):
                self.y, self.traces = y, traces

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.layers = nn.ModuleList([nn.Linear(5, 5), nn.Linear(5, 5)])

            def forward(self, x, traces):
                for layer, trace in zip(self.layers, traces):
                    x = trace.mean(torch.tanh(layer(x)))
                return Out(x, traces)

        net = Net()
        nets.append(net)
        opt = torch.optim.SGD(net.parameters(), lr=0.1)
        kept = Out(None, [Trace(), Trace()])
        for x in xs:
            opt.zero_grad()
            kept = net(x, kept.traces)
            kept.y.square().mean().backward()
            opt.step()
        """,
        right="""\
        layers = [nn.Linear(5, 5), nn.Linear(5, 5)]
        nets.append(nn.Sequential(*layers))
        opt = torch.optim.SGD([p for layer in layers for p in layer.parameters()], lr=0.1)
        past = [torch.zeros(0, 3, 5) for _ in layers]
        for x in xs:
            opt.zero_grad()
            for i, layer in enumerate(layers):
                past[i] = torch.cat([past[i], torch.tanh(layer(x))[None]])
                x = past[i].mean(0)
            x.square().mean().backward()
            opt.step()
            past = [p.detach() for p in past]
        """,
    ),
    Case(
        "compute_in_method",
        start="""\
        import torch
        from torch import nn

        torch.manual_seed(0)
        x, y = torch.randn(6, 3), torch.randn(6)
        nets = []
        """,
        sick="""\
        class Kernel(nn.Module):
            def __init__(self, power):
                super().__init__()
                self.raw = nn.Parameter(torch.zeros(3))
                self.top = nn.Parameter(torch.zeros(()))
                inner = torch.exp(self.raw)
                self.width = inner.pow(power)
                self.height = torch.sigmoid(self.top)

            def forward(self, x):
                return self.height * torch.exp(-(x / self.width).square().sum(-1))

        net = Kernel(2)
        nets.append(net)
        opt = torch.optim.Adam(net.parameters(), lr=0.1)
        for step in range(4):
            loss = (net(x) - y).square().mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
        """,
        right="""\
        raw, top = nn.Parameter(torch.zeros(3)), nn.Parameter(torch.zeros(()))
        nets.append(nn.ParameterList([raw, top]))
        opt = torch.optim.Adam([raw, top], lr=0.1)
        for step in range(4):
            width = torch.exp(raw).pow(2)
            out = torch.sigmoid(top) * torch.exp(-(x / width).square().sum(-1))
            opt.zero_grad()
            (out - y).square().mean().backward()
            opt.step()
        """,
    ),
    Case(
        "use_instead",
        start="""\
        import torch
        from torch import nn

        torch.manual_seed(0)
        painter = nn.Linear(3, 4)
        judge = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 1))
        nets = [painter, judge]
        painting = torch.optim.SGD(painter.parameters(), lr=0.1)
        judging = torch.optim.SGD(judge.parameters(), lr=0.1)
        noise, real = torch.randn(3, 6, 3), torch.randn(6, 4)
        """,
        sick="""\
        class Pair:
            def judge_it(self, drawn):
                self.score = judge(drawn.detach())
                (judge(real) - self.score - 1).square().mean().backward()

            def paint_it(self, drawn):
                score = judge(drawn)
                (self.score + 1).square().mean().backward()

        pair = Pair()
        for z in noise:
            drawn = painter(z)
            judging.zero_grad()
            pair.judge_it(drawn)
            judging.step()
            painting.zero_grad()
            pair.paint_it(drawn)
            painting.step()
        """,
        right="""\
        for z in noise:
            with torch.no_grad():
                drawn = painter(z)
            judging.zero_grad()
            (judge(real) - judge(drawn) - 1).square().mean().backward()
            judging.step()
            painting.zero_grad()
            (judge(painter(z)) + 1).square().mean().backward()
            painting.step()
        """,
    ),
    Case(
        "recompute_entries",
        start="""\
        import torch
        from torch import nn
        from torch.distributions import Categorical

        torch.manual_seed(0)
        policy = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
        nets, xs = [policy], torch.randn(5, 3)
        opt = torch.optim.SGD(policy.parameters(), lr=0.1)
        """,
        sick="""\
        memory = []
        for x in xs:
            dist = Categorical(logits=policy(x))
            action = (x.sum() > 0).long()
            memory.append((x, action, dist.log_prob(action), x.mean()))

        def learn():
            loss = torch.zeros(())
            for x, action, log_prob, reward in memory:
                loss = loss - log_prob * reward
            opt.zero_grad()
            loss.backward()
            opt.step()

        for step in range(3):
            learn()
        """,
        right="""\
        actions = (xs.sum(1) > 0).long()
        for step in range(3):
            log_probs = policy(xs).log_softmax(1)[range(5), actions]
            opt.zero_grad()
            (-log_probs * xs.mean(1)).sum().backward()
            opt.step()
        """,
        near="five forward passes of one row each are rounded otherwise than one of five rows",
    ),
    Case(
        "several",
        inside=("add_statement",),
        start=NETS,
        sick="""\
        scores, wanted = [], []
        for step in range(3):
            for row, aim in zip(x, y):
                scores.append(head(body(row)))
                wanted.append(aim)
            loss = (torch.stack(scores) - torch.stack(wanted)).square().sum()
            opt.zero_grad()
            loss.backward()
            opt.step()
        """,
        right="""\
        for step in range(3):
            opt.zero_grad()
            (torch.stack([head(body(row)) for row in x]) - y).square().sum().backward()
            opt.step()
        """,
        near="a stack of the wanted rows is another tensor",
    ),
    Case(
        "delete_statement",
        start=NETS,
        loop=True,
        sick="loss = head(body(x)).sub(y).square().mean()\nloss.backward()\nloss.backward()\nopt.step()\n",
        right="head(body(x)).sub(y).square().mean().backward()\nopt.step()\n",
    ),
    Case(
        "several",
        inside=("detach_assigned",),
        start=CELL,
        sick="""\
        class Memory:
            def __init__(self):
                self.h = torch.zeros(1, 4)

            def __call__(self, x):
                out = cell(x, self.h)
                self.h = out
                return head(out)

        net = Memory()
        for x in xs:
            loss = net(x).square().sum()
            opt.zero_grad()
            loss.backward()
            opt.step()
        """,
        right="""\
        h = torch.zeros(1, 4)
        for x in xs:
            out = cell(x, h)
            opt.zero_grad()
            head(out).square().sum().backward()
            opt.step()
            h = torch.tensor(out.tolist())
        """,
    ),
    Case(
        "several",
        inside=("detach_after", "drop_keyword"),
        start=CELL,
        sick="""\
        h = torch.zeros(1, 4)
        for x in xs:
            h = cell(x, h)
            loss = head(h).square().sum()
            opt.zero_grad()
            loss.backward(retain_graph=True)
            opt.step()
        """,
        right="""\
        h = torch.zeros(1, 4)
        for x in xs:
            h = cell(x, h.data)
            opt.zero_grad()
            head(h).square().sum().backward()
            opt.step()
        """,
    ),
    Case(
        "score_detached",
        start="""\
        import torch
        from torch import nn
        from torch.nn.functional import softplus

        torch.manual_seed(0)
        painter = nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, 5))
        judge = nn.Sequential(nn.Linear(5, 6), nn.Tanh(), nn.Linear(6, 1))
        nets = [painter, judge]
        of_painter = torch.optim.Adam(painter.parameters(), lr=0.01)
        of_judge = torch.optim.Adam(judge.parameters(), lr=0.01)
        noise, real = torch.randn(4, 8, 3), torch.randn(4, 8, 5)
        """,
        sick="""\
        for step in range(4):
            painted = painter(noise[step])
            scores = judge(painted)
            true = judge(real[step])
            p_loss = softplus(-scores).mean()
            j_loss = softplus(scores).mean() + softplus(-true).mean()
            of_painter.zero_grad()
            p_loss.backward(retain_graph=True)
            of_painter.step()
            of_judge.zero_grad()
            j_loss.backward()
            of_judge.step()
        """,
        right="""\
        for step in range(4):
            painted = painter(noise[step])
            p_loss = softplus(-judge(painted)).mean()
            j_loss = softplus(judge(torch.tensor(painted.tolist()))).mean() + softplus(-judge(real[step])).mean()
            for p, g in zip(painter.parameters(), torch.autograd.grad(p_loss, painter.parameters())):
                p.grad = g
            for p, g in zip(judge.parameters(), torch.autograd.grad(j_loss, judge.parameters())):
                p.grad = g
            of_painter.step()
            of_judge.step()
        """,
    ),
    Case(
        "detach_between",
        start="""\
        import copy
        import torch
        from torch import nn

        torch.manual_seed(0)
        student = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))
        teacher, nets = copy.deepcopy(student), [student]
        opt, data = torch.optim.Adam(student.parameters(), lr=0.01), torch.randn(3, 6, 4)

        @torch.no_grad()
        def follow():
            for t, s in zip(teacher.parameters(), student.parameters()):
                t.lerp_(s, 0.1)

        """,
        sick="""\
        for x in data:
            goal = teacher(0.9 * x).softmax(-1)
            guess = student(x).log_softmax(-1)
            loss = -(goal * guess).sum(-1).mean()
            follow()
            opt.zero_grad()
            loss.backward()
            opt.step()
        """,
        right="""\
        for x in data:
            goal = torch.tensor(teacher(0.9 * x).softmax(-1).tolist())
            follow()
            opt.zero_grad()
            (-(goal * student(x).log_softmax(-1)).sum(-1).mean()).backward()
            opt.step()
        """,
    ),
    Case(
        "no_grad_block",
        start=NETS + "other, p = nn.Linear(3, 4), torch.randn(6, 3)\nnets.append(other)\n"
        "opt2 = torch.optim.SGD(other.parameters(), lr=0.1)\n",
        sick="""\
        target = body(x)
        for step in range(3):
            loss = (other(p) - target).square().mean()
            opt2.zero_grad()
            loss.backward()
            opt2.step()
        """,
        right="""\
        target = torch.tensor(body(x).tolist())
        for step in range(3):
            opt2.zero_grad()
            (other(p) - target).square().mean().backward()
            opt2.step()
        """,
    ),
    Case(
        "no_grad_decorator",
        start=NETS,
        sick="""\
        memory = []

        def play(n):
            for i in range(n):
                value = head(body(x[i]))
                memory.append({"obs": x[i], "goal": y[i], "value": value})

        play(4)
        for step in range(3):
            loss = 0
            for m in memory:
                loss = loss + (head(body(m["obs"])) - m["goal"] - 0.9 * m["value"]).square().sum()
            opt.zero_grad()
            loss.backward()
            opt.step()
        """,
        right="""\
        old = [torch.tensor(head(body(x[i])).tolist()) for i in range(4)]
        for step in range(3):
            opt.zero_grad()
            sum((head(body(x[i])) - y[i] - 0.9 * old[i]).square().sum() for i in range(4)).backward()
            opt.step()
        """,
    ),
    Case(
        "recompute_after",
        start=NETS,
        sick="""\
        for step in range(3):
            guess = head(body(-x))
            fit = head(body(x)).sub(y).square().mean()
            opt.zero_grad()
            fit.backward()
            opt.step()
            small = guess.square().mean()
            opt.zero_grad()
            small.backward()
            opt.step()
        """,
        right="""\
        for step in range(3):
            opt.zero_grad()
            head(body(x)).sub(y).square().mean().backward()
            opt.step()
            opt.zero_grad()
            head(body(-x)).square().mean().backward()
            opt.step()
        """,
    ),
    Case(
        "merge_backward",
        start="""\
        import torch
        from torch import nn

        torch.manual_seed(0)
        body, tops = nn.Linear(3, 4), [nn.Linear(4, 1), nn.Linear(4, 1), nn.Linear(4, 1)]
        nets, x = [body, *tops], torch.randn(5, 3)
        opt = torch.optim.Adam(body.parameters())
        top_opts = [torch.optim.Adam(top.parameters()) for top in tops]
        """,
        sick="""\
        for epoch in range(3):
            opt.zero_grad()
            seen = body(x).tanh()
            for top, top_opt in zip(tops, top_opts):
                loss = top(seen).square().mean()
                top_opt.zero_grad()
                loss.backward()
                top_opt.step()
            opt.step()
        """,
        right="""\
        for epoch in range(3):
            seen = body(x).tanh()
            for o in [opt, *top_opts]:
                o.zero_grad()
            first, second, third = [top(seen).square().mean() for top in tops]
            (first + second + third).backward()
            for o in [opt, *top_opts]:
                o.step()
        """,
    ),
    Case(
        "add_statement",
        start=NETS,
        sick="""\
        total = 0
        for epoch in range(3):
            for i in range(2):
                total = total + head(body(x[i])).sub(y[i]).square().mean()
            opt.zero_grad()
            total.backward()
            opt.step()
        """,
        right="""\
        for epoch in range(3):
            opt.zero_grad()
            sum(head(body(x[i])).sub(y[i]).square().mean() for i in range(2)).backward()
            opt.step()
        """,
    ),
]


@pytest.mark.breadth(4)
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_the_proposed_fix_trains_as_the_right_version(case: Case, tmp_path: Path) -> None:
    check_proposed(case, tmp_path)
