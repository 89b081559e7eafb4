import torch
from torch import nn

torch.manual_seed(0)


class WithPenalty(torch.autograd.Function):
    @staticmethod
    def forward(ctx, value, penalty):
        ctx.save_for_backward(penalty)
        return value

    @staticmethod
    def backward(ctx, grad):
        (penalty,) = ctx.saved_tensors
        return grad, torch.ones_like(penalty)


class Gate(nn.Module):
    def __init__(self):
        super().__init__()
        self.scores = nn.Linear(4, 3)

    def forward(self, x):
        shares = self.scores(x).softmax(-1)
        WithPenalty.apply(shares, 3 * shares.mean(0).square().sum())
        return shares


gate, experts = Gate(), nn.Linear(4, 3)
optimizer = torch.optim.SGD([*gate.parameters(), *experts.parameters()], lr=0.1)
for _ in range(10):
    x = torch.randn(16, 4)
    loss = ((gate(x) * experts(x)).sum(-1) - x[:, 0]).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: WithPenalty.apply(shares, 3 * shares.mean(0).square().sum())
