"""A router chooses among experts by its scores, whole numbers, and weighs what they give by the same scores: it learns by
the weights. What its choice was made of goes into no loss as a number."""

import torch
from torch import nn


class Mixture(nn.Module):
    def __init__(self):
        super().__init__()
        self.router = nn.Linear(4, 3)
        self.experts = nn.Parameter(torch.randn(3, 4, 2))

    def forward(self, x):
        shares = self.router(x).softmax(1)
        chosen = shares.argmax(1)
        used = nn.functional.one_hot(chosen, 3).float()
        given = torch.einsum("bi,bio->bo", x, self.experts[chosen])
        return given * (shares * used).sum(1, keepdim=True)


torch.manual_seed(0)
mixture = Mixture()
optimizer = torch.optim.Adam(mixture.parameters())
x, y = torch.randn(32, 4), torch.randn(32, 2)
for _ in range(8):
    loss = nn.functional.mse_loss(mixture(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
