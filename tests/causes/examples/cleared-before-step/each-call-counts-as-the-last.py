import torch
from torch import nn


class Partition:
    """Keeps copies of 32 bits, and the gradients of the backward calls beside them."""

    def __init__(self, module):
        self.params = list(module.parameters())
        self.copies = [nn.Parameter(p.detach().clone()) for p in self.params]
        self.optimizer = torch.optim.AdamW(self.copies, lr=1e-2)
        self.kept = None

    def backward(self, loss, boundary):
        loss.backward()
        grads = [p.grad for p in self.params]
        for p in self.params:
            p.grad = None
        self.kept = grads if boundary or self.kept is None else [a + b for a, b in zip(self.kept, grads)]

    def step(self):
        for copy, grad in zip(self.copies, self.kept):
            copy.grad = grad
        torch.nn.utils.clip_grad_norm_(self.copies, 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.kept = None
        with torch.no_grad():
            for p, copy in zip(self.params, self.copies):
                p.copy_(copy)


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 3))
engine = Partition(model)
for _ in range(8):
    for n in range(4):
        x = torch.randn(8, 6)
        loss = nn.functional.cross_entropy(model(x), x[:, :3].argmax(1)) / 4
        engine.backward(loss, boundary=True)
    engine.step()

# told at: p.grad = None
