import torch
from torch import nn


class Dueling(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.value, self.advantage = nn.Linear(4, 16), nn.Linear(16, 1), nn.Linear(16, 3)

    def forward(self, x):
        h = self.body(x).relu()
        a = self.advantage(h).detach()
        return self.value(h) + a - a.mean(1, keepdim=True)


torch.manual_seed(0)
q = Dueling()
optimizer = torch.optim.Adam(q.parameters(), lr=1e-2)
for step in range(20):
    x, action, reward = torch.randn(8, 4), torch.randint(0, 3, (8, 1)), torch.randn(8)
    loss = (q(x).gather(1, action).squeeze(1) - reward).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
# told at: a = self.advantage(h).detach()
