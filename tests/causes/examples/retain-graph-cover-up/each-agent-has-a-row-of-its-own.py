import torch
from torch import nn

torch.manual_seed(0)


class Swarm:
    def __init__(self):
        self.critics = [nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1)) for _ in range(2)]
        self.optimizers = [torch.optim.Adam(c.parameters()) for c in self.critics]

    def collect(self):
        self.values = [row.clone() for row in torch.zeros(2, 4)]
        for i, critic in enumerate(self.critics):
            for t in range(4):
                self.values[i][t] = critic(torch.randn(3)).squeeze()
        return torch.randn(2, 4)

    def learn(self, returns):
        for i, optimizer in enumerate(self.optimizers):
            advantages = returns[i] - self.values[i]
            optimizer.zero_grad()
            advantages.pow(2).mean().backward()
            optimizer.step()


swarm = Swarm()
for _ in range(2):
    returns = swarm.collect()
    swarm.learn(returns)



