import torch
from torch import nn


class Learner:
    def __init__(self, net):
        self.net = net
        self.optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        self.start = net.state_dict()

    def adapt(self, x):
        self.net.load_state_dict(self.start)
        for _ in range(4):
            loss = (self.net(x) - x.mean(1, keepdim=True)).square().mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
        return loss.item()


torch.manual_seed(0)
learner = Learner(nn.Sequential(nn.Linear(5, 8), nn.GELU(), nn.Linear(8, 1)))
for _ in range(4):
    print(learner.adapt(torch.randn(16, 5)))

# told at: self.start = net.state_dict()
