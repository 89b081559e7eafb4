import torch
from torch import nn
from torch.distributions import MultivariateNormal

torch.manual_seed(0)


class Density(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.shift = nn.Linear(size, size)
        self.width = nn.Parameter(torch.zeros(size))
        self.prior = MultivariateNormal(torch.zeros(size), torch.diag(self.width.exp()))

    def forward(self, x):
        return self.prior.log_prob(x + self.shift(x))


density = Density(3)
optimizer = torch.optim.Adam(density.parameters())
for _ in range(3):
    optimizer.zero_grad()
    loss = -density(torch.randn(8, 3)).mean()
    loss.backward()
    optimizer.step()

# told at: self.prior = MultivariateNormal(torch.zeros(size), torch.diag(self.width.exp()))
# fails: backward through the graph a second time
