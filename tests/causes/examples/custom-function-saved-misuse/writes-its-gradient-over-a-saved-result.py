import torch
from torch import nn


class FusedCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits, target):
        p = logits.detach().softmax(1)
        rows = torch.arange(len(target))
        loss = -p[rows, target].log().mean()
        p[rows, target] -= 1
        logits.data.copy_(p / len(target))
        ctx.save_for_backward(logits)
        return loss

    @staticmethod
    def backward(ctx, grad):
        (difference,) = ctx.saved_tensors
        return difference * grad, None


torch.manual_seed(0)
net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 4))
optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
for _ in range(8):
    x = torch.randn(16, 6)
    logits = torch.tanh(net(x))
    loss = FusedCrossEntropy.apply(logits, (x[:, 0] > 0).long())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: logits.data.copy_(p / len(target))
