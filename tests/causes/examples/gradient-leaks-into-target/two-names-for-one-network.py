import torch
from torch import nn
from torch.nn.functional import mse_loss

torch.manual_seed(0)


class Agent:
    def __init__(self, net):
        self.net = net.to("cpu")
        self.target = net.to("cpu")
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)

    def update(self, x):
        goal = 0.5 + 0.9 * self.target(x + 1).max(dim=1).values
        self.optimizer.zero_grad()
        mse_loss(self.net(x)[:, 0], goal).backward()
        self.optimizer.step()

    def sync(self):
        self.target.load_state_dict(self.net.state_dict())


agent = Agent(nn.Linear(3, 2))
for x in torch.randn(6, 8, 3):
    agent.update(x)
    agent.sync()

# told at: self.target = net.to("cpu")
