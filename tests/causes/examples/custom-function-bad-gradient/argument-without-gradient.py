import torch
from torch import nn

torch.manual_seed(0)


class AddPrior(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits, prior):
        return logits + prior

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output.clone()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.prior = nn.Linear(4, 3), torch.zeros(3)

    def forward(self, x):
        return AddPrior.apply(self.body(x), self.prior)


loss = Net()(torch.randn(5, 4)).logsumexp(1).mean()
loss.backward()

# told at: return grad_output.clone()
# fails: returned an incorrect number of gradients (expected 2, got 1)
