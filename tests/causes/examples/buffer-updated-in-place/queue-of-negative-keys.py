import torch
from torch import nn


class Contrast(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Linear(6, 4)
        self.register_buffer("queue", torch.randn(4, 10))
        self.ptr = 0

    def forward(self, x):
        q = self.encoder(x)
        logits = q @ self.queue
        self.enqueue(q)
        return logits

    @torch.no_grad()
    def enqueue(self, keys):
        n = len(keys)
        self.queue[:, self.ptr : self.ptr + n] = keys.T
        self.ptr = (self.ptr + n) % 10


torch.manual_seed(0)
Contrast()(torch.randn(2, 6)).logsumexp(1).mean().backward()

# told at: logits = q @ self.queue
# fails: modified by an inplace operation
