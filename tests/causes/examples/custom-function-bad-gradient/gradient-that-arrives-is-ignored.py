import torch
from torch import nn


class Handed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, hidden, loss, grad):
        ctx.save_for_backward(grad)
        return loss.clone()

    @staticmethod
    def backward(ctx, grad_output):
        (grad,) = ctx.saved_tensors
        return grad, None, None


def chunked(hidden, head, labels):
    parts = [h.detach().requires_grad_() for h in hidden.chunk(2)]
    losses = []
    for part, label in zip(parts, labels.chunk(2)):
        loss = nn.functional.cross_entropy(head(part), label, reduction="sum") / len(labels)
        loss.backward()
        losses.append(loss.detach())
    return Handed.apply(hidden, sum(losses), torch.cat([p.grad for p in parts]))


torch.manual_seed(0)
body, head = nn.Sequential(nn.Linear(6, 16), nn.Tanh()), nn.Linear(16, 3)
optimizer = torch.optim.SGD([*body.parameters(), *head.parameters()], lr=0.1)
for _ in range(10):
    optimizer.zero_grad()
    for _ in range(4):
        x = torch.randn(16, 6)
        loss = chunked(body(x), head, x[:, :3].argmax(1))
        (loss / 4).backward()
    optimizer.step()

# told at: return grad, None, None
