import torch
from torch import nn

torch.manual_seed(0)


class Distances(torch.autograd.Function):
    """The mean absolute and the mean squared error, computed in one pass over the data."""

    @staticmethod
    def forward(ctx, guess, truth):
        ctx.save_for_backward(guess, truth)
        gap = guess - truth
        return gap.abs().mean(), gap.square().mean()

    @staticmethod
    def backward(ctx, of_absolute, of_squared):
        guess, truth = ctx.saved_tensors
        gap = guess - truth
        return (of_absolute * gap.sign() + of_squared * 2 * gap) / gap.numel(), None


net = nn.Linear(3, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    features, targets = torch.randn(8, 3), torch.randn(8, 1)
    absolute, squared = Distances.apply(net(features), targets)
    optimizer.zero_grad()
    absolute.backward()
    squared.backward()
    optimizer.step()

# told at: absolute.backward()
# fails: Trying to backward through the graph a second time
