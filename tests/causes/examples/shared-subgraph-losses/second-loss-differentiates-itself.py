import torch
from torch import nn
from torch.nn.functional import mse_loss


def diversity(features, backward=True):
    similarity = features @ features.t()
    loss = similarity.pow(2).mean()
    if backward:
        loss.backward(retain_graph=True)
    return loss.item()


class Learner:
    def __init__(self):
        self.trunk, self.head = nn.Linear(4, 5), nn.Linear(5, 1)
        self.optimizer = torch.optim.Adam([*self.trunk.parameters(), *self.head.parameters()])

    def update(self, x, y):
        self.optimizer.zero_grad()
        features = self.trunk(x).tanh()
        loss = mse_loss(self.head(features), y)
        loss.backward()
        told = {"loss": loss.item(), "diversity": diversity(features)}
        self.optimizer.step()
        return told


torch.manual_seed(0)
learner = Learner()
for _ in range(4):
    learner.update(torch.randn(6, 4), torch.randn(6, 1))

# told at: loss.backward()
# fails: backward through the graph a second time
