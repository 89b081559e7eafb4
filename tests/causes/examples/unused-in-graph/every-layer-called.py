import torch
from torch import nn
from torch.nn import functional as F


class Rater(nn.Module):
    def __init__(self):
        super().__init__()
        self.genre = nn.Linear(4, 3)
        self.director = nn.Linear(6, 3)
        self.score = nn.Linear(3, 1)

    def forward(self, genres, directors):
        return self.score(torch.tanh(self.genre(genres) + self.director(directors)))


torch.manual_seed(0)
rater = Rater()
optimizer = torch.optim.Adam(rater.parameters(), lr=0.01)
for _ in range(3):
    loss = F.mse_loss(rater(torch.rand(5, 4), torch.rand(5, 6)), torch.rand(5, 1))
    gradients = torch.autograd.grad(loss, rater.parameters())
    for p, gradient in zip(rater.parameters(), gradients, strict=True):
        p.grad = gradient.clamp(-1, 1)
    optimizer.step()

