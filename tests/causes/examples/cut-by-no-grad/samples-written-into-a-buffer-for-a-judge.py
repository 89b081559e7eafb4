import torch
from torch import nn


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(8, 8)

    @torch.no_grad()
    def sample(self, z):
        path = torch.empty(2, 4, 8)
        path[0] = z
        path[1] = self.net(z)
        return path[-1]


torch.manual_seed(0)
generator = Generator()
judge = nn.Linear(8, 1).requires_grad_(False)
optimizer = torch.optim.Adam(generator.parameters(), lr=1e-3)
for step in range(3):
    loss = -judge(generator.sample(torch.randn(4, 8))).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: @torch.no_grad()
# fails: element 0 of tensors does not require grad and does not have a grad_fn
