import torch
from torch import nn
from torch.nn.functional import mse_loss

torch.manual_seed(0)


class Agent:
    def __init__(self):
        self.net, self.target = nn.Linear(3, 2), nn.Linear(3, 2)
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)

    def update(self, x):
        with torch.no_grad():
            goal = 0.5 + 0.9 * self.target(x + 1).max(dim=1).values
        self.optimizer.zero_grad()
        mse_loss(self.net(x)[:, 0], goal).backward()
        self.optimizer.step()

    def sync(self):
        self.target.load_state_dict(self.net.state_dict())
        self.target = self.net


agent = Agent()
for i, x in enumerate(torch.randn(10, 8, 3)):
    agent.update(x)
    if i % 2:
        agent.sync()

# told at: self.target = self.net
