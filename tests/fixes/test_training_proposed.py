"""What graphdoc proposes where no graph was used twice trains exactly as the right version does."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_training import CASES as BUILT
from test_training_old_graphs import CASES as OLD_GRAPHS
from test_training_order import CASES as ORDER
from training import NETS, Case, check_proposed

from graphdoc.fixes.kinds import known

FROZEN_ENCODER = """\
import torch
from torch import nn

torch.manual_seed(0)
encoder, head = nn.Linear(4, 6), nn.Linear(6, 2)
nets, x = [encoder, head], torch.randn(3, 4)
model = nn.Sequential(encoder, nn.Tanh(), head)
"""
HEAD_ALONE = """\
opt = torch.optim.SGD(head.parameters(), lr=0.1)
for step in range(3):
    opt.zero_grad()
    model(x).square().mean().backward()
    opt.step()
"""

CASES = [
    Case(
        "rewrite",
        start=FROZEN_ENCODER,
        sick="""\
        for name, p in model.named_parameters():
            if name.startswith("0."):
                p.requires_grad = False
            else:
                p.requires_grad = False
        opt = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(3):
            opt.zero_grad()
            model(x).square().mean().backward()
            opt.step()
        """,
        right=HEAD_ALONE,
    ),
    Case(
        "fit_gradient",
        start="""\
        import torch
        from torch import nn

        torch.manual_seed(0)
        body, weight = nn.Linear(3, 5), nn.Parameter(torch.randn(4, 1))
        nets, x = [body, nn.ParameterList([weight])], torch.randn(4, 3)
        opt = torch.optim.SGD([*body.parameters(), weight], lr=0.1)
        """,
        sick="""\
        class Scale(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x, weight):
                ctx.save_for_backward(x, weight)
                return x * weight

            @staticmethod
            def backward(ctx, grad):
                x, weight = ctx.saved_tensors
                return grad * weight, (grad * x).sum(1)

        for step in range(3):
            opt.zero_grad()
            Scale.apply(body(x), weight).square().mean().backward()
            opt.step()
        """,
        right="""\
        for step in range(3):
            opt.zero_grad()
            (body(x) * weight).square().mean().backward()
            opt.step()
        """,
    ),
    Case(
        "return_values",
        start="""\
        import torch
        from torch import nn

        torch.manual_seed(0)
        body, weight = nn.Linear(3, 5), nn.Parameter(torch.randn(5))
        nets, x = [body, nn.ParameterList([weight])], torch.randn(4, 3)
        opt = torch.optim.SGD([*body.parameters(), weight], lr=0.1)
        """,
        sick="""\
        class Scale(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x, weight):
                ctx.save_for_backward(x, weight)
                return x * weight

            @staticmethod
            def backward(ctx, grad):
                x, weight = ctx.saved_tensors
                d_weight = (grad * x).sum(0)
                d_x = grad * weight

        for step in range(3):
            opt.zero_grad()
            Scale.apply(body(x), weight).square().mean().backward()
            opt.step()
        """,
        right="""\
        for step in range(3):
            opt.zero_grad()
            (body(x) * weight).square().mean().backward()
            opt.step()
        """,
    ),
    Case(
        "add_statement",
        start=FROZEN_ENCODER,
        sick="""\
        model.requires_grad_(False)
        opt = torch.optim.SGD(head.parameters(), lr=0.1)
        for step in range(3):
            opt.zero_grad()
            model(x).square().mean().backward()
            opt.step()
        """,
        right=HEAD_ALONE,
    ),
    Case(
        "clone_parameters",
        start="""\
        import torch
        from torch import nn

        class Critic(nn.Module):
            def __init__(self):
                super().__init__()
                self.features = self.first = nn.Sequential(nn.Linear(4, 6))
                self.last = nn.Linear(6, 1)

            def forward(self, x):
                return self.last(self.features(x).tanh())

        torch.manual_seed(0)
        made, critic = nn.Linear(4, 4), Critic()
        nets, x = [made, critic], torch.randn(8, 4)
        opt_made = torch.optim.SGD(made.parameters(), lr=0.1)
        opt = torch.optim.SGD(critic.parameters(), lr=0.1)
        """,
        sick="""\
        for step in range(4):
            fake = made(x)
            score = critic(fake)
            opt.zero_grad()
            (critic(fake.detach()) - critic(x)).tanh().mean().backward()
            opt.step()
            opt_made.zero_grad()
            (-score).mean().backward()
            opt_made.step()
        """,
        right="""\
        for step in range(4):
            fake = made(x)
            weights = [p.clone() for layer in (critic.first[0], critic.last) for p in (layer.weight, layer.bias)]
            score = nn.functional.linear(fake, weights[0], weights[1]).tanh()
            score = nn.functional.linear(score, weights[2], weights[3])
            opt.zero_grad()
            (critic(fake.detach()) - critic(x)).tanh().mean().backward()
            opt.step()
            opt_made.zero_grad()
            (-score).mean().backward()
            opt_made.step()
        """,
    ),
    Case(
        "grad_if_any",
        start=FROZEN_ENCODER,
        sick="""\
        opt = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(3):
            opt.zero_grad()
            head(x @ torch.ones(4, 6)).square().mean().backward()
            norm = sum(p.grad.norm() for p in model.parameters())
            for p in head.parameters():
                p.grad /= norm
            opt.step()
        """,
        right="""\
        opt = torch.optim.SGD(head.parameters(), lr=0.1)
        for step in range(3):
            opt.zero_grad()
            head(x @ torch.ones(4, 6)).square().mean().backward()
            norm = sum(p.grad.norm() for p in head.parameters())
            for p in head.parameters():
                p.grad /= norm
            opt.step()
        """,
    ),
    Case(
        "torch_instead_of_numpy",
        start="""\
        import numpy as np
        import torch
        from torch import nn

        torch.manual_seed(0)
        first, second = nn.Linear(4, 4), nn.Linear(4, 4)
        nets, x = [first, second], torch.randn(3, 4)
        opt = torch.optim.SGD([p for n in nets for p in n.parameters()], lr=0.1)
        """,
        sick="""\
        class Both(nn.Module):
            def __init__(self):
                super().__init__()
                self.first, self.second = first, second

            def forward(self, x):
                seen = [x, self.first(x)]
                seen.append(self.second(seen[1]))
                return np.mean(seen, 0)

        net = Both()
        for step in range(3):
            opt.zero_grad()
            net(x).square().mean().backward()
            opt.step()
        """,
        right="""\
        for step in range(3):
            opt.zero_grad()
            torch.stack([x, first(x), second(first(x))]).mean(0).square().mean().backward()
            opt.step()
        """,
        near="first(x) is computed twice by the right version, so its gradient is a sum",
    ),
    Case(
        "detach_stored",
        start="""\
        import copy
        import torch
        from torch import nn

        torch.manual_seed(0)
        first, score, last = nn.Linear(4, 6), nn.Linear(6, 1), nn.Linear(6, 2)
        nets, x = [first, score, last], torch.randn(3, 4)
        opt = torch.optim.Adam([p for n in nets for p in n.parameters()])
        """,
        sick="""\
        class Gate(nn.Module):
            def __init__(self):
                super().__init__()
                self.score = score
                self.map = None

            def forward(self, x):
                self.map = torch.sigmoid(self.score(x))
                return x * self.map

        net = nn.Sequential(first, Gate(), last)
        for step in range(3):
            opt.zero_grad()
            net(x).square().mean().backward()
            opt.step()
            best = copy.deepcopy(net)
        """,
        right="""\
        for step in range(3):
            opt.zero_grad()
            seen = first(x)
            last(seen * score(seen).sigmoid()).square().mean().backward()
            opt.step()
        """,
    ),
    Case(
        "grad_of_whole",
        start=NETS,
        sick="""\
        points = torch.randn(5, 3).requires_grad_()
        for step in range(3):
            opt.zero_grad()
            u = head(body(points))
            along = torch.autograd.grad(u.sum(), points[:, 1:3], create_graph=True)[0]
            (u.square().mean() + along.square().mean()).backward()
            opt.step()
        """,
        right="""\
        points = torch.randn(5, 3).requires_grad_()
        for step in range(3):
            opt.zero_grad()
            u = head(body(points))
            along = torch.autograd.grad(u.sum(), points, create_graph=True)[0][:, 1:3]
            (u.square().mean() + along.square().mean()).backward()
            opt.step()
        """,
    ),
    Case(
        "static_function_kept",
        start=NETS,
        sick="""\
        class Turned(torch.autograd.Function):
            def __init__(self, strength):
                self.strength = strength
                self.calls = 0

            def forward(self, x):
                self.calls += 1
                return x * 1.0

            def backward(self, grad):
                return -self.strength * self.calls * grad

        turn = Turned(0.1)
        for step in range(3):
            opt.zero_grad()
            head(turn(body(x))).sub(y).square().mean().backward()
            opt.step()
        """,
        right="""\
        for step in range(3):
            opt.zero_grad()
            reached = body(x)
            seen = reached.detach().requires_grad_()
            head(seen).sub(y).square().mean().backward()
            reached.backward(-0.1 * (step + 1) * seen.grad)
            opt.step()
        """,
    ),
    Case(
        "static_function",
        start=NETS,
        sick="""\
        class Turned(torch.autograd.Function):
            def __init__(self, strength, offset=0.5):
                super(Turned, self).__init__()
                self.strength = strength
                self.offset = offset

            def forward(self, x):
                self.save_for_backward(x)
                return x + self.offset

            def backward(self, grad):
                (x,) = self.saved_tensors
                return -self.strength * grad * (x > 0)

        for step in range(3):
            opt.zero_grad()
            head(Turned(strength=0.3)(body(x))).sub(y).square().mean().backward()
            opt.step()
        """,
        right="""\
        for step in range(3):
            opt.zero_grad()
            reached = body(x)
            seen = (reached + 0.5).detach().requires_grad_()
            head(seen).sub(y).square().mean().backward()
            reached.backward(-0.3 * seen.grad * (reached > 0))
            opt.step()
        """,
    ),
    Case(
        "grad_of_flagged",
        start=NETS,
        loop=True,
        sick="""\
        for p in body[0].parameters():
            p.requires_grad_(False)
        loss = head(body(x)).sub(y).square().mean()
        weights = [*body.parameters(), *head.parameters()]
        grads = torch.autograd.grad(loss, weights)
        for w, g in zip(weights, grads):
            w.grad = g
        opt.step()
        """,
        right="""\
        for p in body[0].parameters():
            p.requires_grad_(False)
        head(body(x)).sub(y).square().mean().backward()
        opt.step()
        """,
    ),
    Case(
        "grad_of_all",
        start=NETS,
        loop=True,
        sick="""\
        weights = [body[0].weight, head[2].weight]
        loss = head(body(x)).sub(y).square().mean()
        grads = []
        for w in weights:
            grads.append(torch.autograd.grad(loss, w)[0])
        for w, g in zip(weights, grads):
            w.grad = g
        opt.step()
        """,
        right="""\
        head(body(x)).sub(y).square().mean().backward()
        for p in (body[0].bias, head[2].bias, *body[2].parameters(), *head[0].parameters()):
            p.grad = None
        opt.step()
        """,
    ),
    Case(
        "remove_switch",
        start=NETS,
        sick="""\
        def validate():
            torch.set_grad_enabled(False)
            return head(body(x)).sub(y).square().mean().item()

        for epoch in range(3):
            opt.zero_grad()
            head(body(x)).sub(y).square().mean().backward()
            opt.step()
            validate()
        """,
        right="""\
        for epoch in range(3):
            opt.zero_grad()
            head(body(x)).sub(y).square().mean().backward()
            opt.step()
        """,
    ),
    Case(
        "add_statement",
        start=NETS,
        sick="""\
        def train():
            features = body(x)
            loss = head(features).sub(y).square().mean()
            opt.zero_grad()
            loss.backward()
            size = features.grad.norm()
            for p in body.parameters():
                p.grad /= size
            opt.step()

        for step in range(3):
            train()
        """,
        right="""\
        for step in range(3):
            features = body(x)
            loss = head(features).sub(y).square().mean()
            (slope,) = torch.autograd.grad(loss, features, retain_graph=True)
            opt.zero_grad()
            loss.backward()
            for p in body.parameters():
                p.grad /= slope.norm()
            opt.step()
        """,
    ),
    Case(
        "sdpa_math",
        start="""\
        import torch
        from torch import nn
        from torch.nn.functional import scaled_dot_product_attention

        torch.manual_seed(0)
        qkv, out = nn.Linear(8, 24), nn.Linear(8, 1)
        nets = [qkv, out]
        opt = torch.optim.SGD([*qkv.parameters(), *out.parameters()], lr=0.1)
        x = torch.randn(2, 5, 8, requires_grad=True)
        """,
        loop=True,
        near="the attention written out by hand multiplies in another order than PyTorch's kernel",
        sick="""\
        q, k, v = qkv(x).unsqueeze(1).chunk(3, dim=-1)
        seen = scaled_dot_product_attention(q, k, v)
        slope = torch.autograd.grad(out(seen.squeeze(1)).sum(), x, create_graph=True)[0]
        slope.norm().backward()
        opt.step()
        """,
        right="""\
        q, k, v = qkv(x).chunk(3, dim=-1)
        seen = (q @ k.transpose(1, 2) / 8**0.5).softmax(-1) @ v
        slope = torch.autograd.grad(out(seen).sum(), x, create_graph=True)[0]
        slope.norm().backward()
        opt.step()
        """,
    ),
    Case(
        "swap_switch",
        start=NETS,
        sick="""\
        @torch.inference_mode()
        def features(x):
            return body(x)

        for step in range(3):
            loss = head(features(x)).sub(y).square().mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
        """,
        right="""\
        for step in range(3):
            opt.zero_grad()
            head(torch.tensor(body(x).tolist())).sub(y).square().mean().backward()
            opt.step()
        """,
    ),
    Case(
        "enable_grad_block",
        start=NETS,
        sick="""\
        class Descent(torch.optim.Optimizer):
            @torch.no_grad()
            def step(self, closure=None):
                loss = closure()
                for p in self.param_groups[0]["params"]:
                    p.sub_(p.grad, alpha=0.1)
                return loss

        own = Descent([*body.parameters(), *head.parameters()], {})

        def closure():
            own.zero_grad()
            loss = head(body(x)).sub(y).square().mean()
            loss.backward()
            return loss

        for step in range(3):
            own.step(closure)
        """,
        right="""\
        plain = torch.optim.SGD(opt.param_groups[0]["params"], lr=0.1)
        for step in range(3):
            plain.zero_grad()
            head(body(x)).sub(y).square().mean().backward()
            plain.step()
        """,
    ),
    Case(
        "rewrite",
        start=NETS,
        sick="""\
        def compare(out, goals):
            loss = torch.zeros(())
            for i, goal in goals:
                loss = loss + (out[i] - goal).square().sum()
            return loss

        for goals in ([(0, 1.0), (2, 0.5)], [], [(1, 0.0)]):
            loss = compare(head(body(x)), goals)
            opt.zero_grad()
            loss.backward()
            opt.step()
        """,
        right="""\
        for goals in ([(0, 1.0), (2, 0.5)], [], [(1, 0.0)]):
            out = head(body(x))
            opt.zero_grad()
            (sum((out[i] - goal).square().sum() for i, goal in goals) + 0 * out[0].sum()).backward()
            opt.step()
        """,
    ),
    Case(
        "detach_instead",
        start=NETS,
        sick="""\
        for step in range(3):
            inner = head(body(x)).sub(y).abs().mean()
            grads = torch.autograd.grad(inner, head.parameters(), create_graph=True)
            for grad in grads:
                grad.detach_()
                grad.requires_grad = False
            fast = {n: p - 0.5 * g for (n, p), g in zip(head.named_parameters(), grads)}
            opt.zero_grad()
            torch.func.functional_call(head, fast, (body(x),)).sub(y).square().mean().backward()
            opt.step()
        """,
        right="""\
        for step in range(3):
            inner = head(body(x)).sub(y).abs().mean()
            grads = torch.autograd.grad(inner, head.parameters())
            fast = {n: p - 0.5 * g for (n, p), g in zip(head.named_parameters(), grads)}
            opt.zero_grad()
            torch.func.functional_call(head, fast, (body(x),)).sub(y).square().mean().backward()
            opt.step()
        """,
    ),
]


SCALED = """\
import torch
from torch import nn

torch.manual_seed(0)
body, weight = nn.Linear(3, 5), nn.Parameter(torch.randn(5))
nets, x = [body, nn.ParameterList([weight])], torch.randn(4, 3)
opt = torch.optim.SGD([*body.parameters(), weight], lr=0.1)
"""
TRAINED = """\
        for step in range(3):
            opt.zero_grad()
            {loss}.backward()
            opt.step()
"""
CASES += [
    Case(
        "pad_return",
        start=SCALED,
        sick="""\
        class Power(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x, weight, power):
                ctx.save_for_backward(x, weight)
                ctx.power = power
                return x**power * weight

            @staticmethod
            def backward(ctx, grad):
                x, weight = ctx.saved_tensors
                return ctx.power * x * weight*grad

        """
        + TRAINED.lstrip().format(loss="Power.apply(body(x), weight, 2).mean()"),
        right=TRAINED.format(loss="(body(x) ** 2 * weight).mean()"),
        filled={"GRADIENT_OF_WEIGHT": "(x**2 * grad).sum(0)"},
        near="products are taken in another order",
    ),
    Case(
        "write_backward",
        start=SCALED,
        sick="""\
        class Squash(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x, width):
                y = torch.tanh(x / width)
                ctx.save_for_backward(y)
                ctx.width = width
                return y

        """
        + TRAINED.lstrip().format(loss="(Squash.apply(body(x), 2.0) * weight).mean()"),
        right=TRAINED.format(loss="((body(x) / 2).tanh() * weight).mean()"),
        filled={"GRADIENT_OF_X": "grad * (1 - y * y) / ctx.width"},
        near="products are taken in another order",
    ),
    Case(
        "write_backward",
        start=SCALED,
        sick="""\
        class Both(torch.autograd.Function):
            @staticmethod
            def forward(x, weight):
                return x * weight, x + weight

            @staticmethod
            def setup_context(context, inputs, output):
                context.save_for_backward(*inputs)

        """
        + TRAINED.lstrip().format(loss="torch.cat(Both.apply(body(x), weight)).square().mean()"),
        right=TRAINED.format(loss="torch.cat([body(x) * weight, body(x) + weight]).square().mean()"),
        filled={
            "GRADIENT_OF_X": "grad_1 * context.saved_tensors[1] + grad_2",
            "GRADIENT_OF_WEIGHT": "(grad_1 * context.saved_tensors[0] + grad_2).sum(0)",
        },
        near="sums are taken in another order",
    ),
    Case(
        "register_derivative",
        start=SCALED,
        sick="""\
        @torch.library.custom_op("graphdoc_tests::squash", mutates_args=())
        def squash(x: torch.Tensor, weight: torch.Tensor, width: float) -> torch.Tensor:
            return torch.tanh(x / width) * weight

        @squash.register_fake
        def _(x, weight, width):
            return torch.empty_like(x)

        """
        + TRAINED.lstrip().format(loss="squash(body(x), weight, 2.0).mean()"),
        right=TRAINED.format(loss="((body(x) / 2).tanh() * weight).mean()"),
        filled={
            "GRADIENT_OF_X": "grad * weight * (1 - torch.tanh(x / ctx.width) ** 2) / ctx.width",
            "GRADIENT_OF_WEIGHT": "(grad * torch.tanh(x / ctx.width)).sum(0)",
        },
        near="products are taken in another order",
    ),
    Case(
        "soften_comparison",
        start=SCALED,
        sick=TRAINED.format(loss="(0.25 >= body(x) * weight).float().mean()"),
        right=TRAINED.format(loss="torch.sigmoid((0.25 - body(x) * weight) / 0.1).mean()"),
        filled={"WIDTH": "0.1"},
    ),
]


OF_VALUES = {
    *("bound_name", "finite_fill", "guard_operand", "log_sum_exp", "mean_of_some", "select_known"),
    *("spread_diagonal", "where_twice"),
}
"""They end a nan, which nothing can be trained with: tests/golden/test_reports.py runs what they make of a program."""


@pytest.mark.breadth(12)
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_the_proposed_fix_trains_as_the_right_version(case: Case, tmp_path: Path) -> None:
    check_proposed(case, tmp_path)


def test_every_kind_of_fix_has_been_trained_with() -> None:
    """A new kind has to bring a program, here or in one of the other files."""
    tried = {kind for case in (*CASES, *OLD_GRAPHS, *ORDER, *BUILT) for kind in case.kinds}
    assert set(known()) - tried == OF_VALUES
