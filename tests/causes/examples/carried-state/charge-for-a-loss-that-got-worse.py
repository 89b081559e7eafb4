import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)


class Trainer:
    def __init__(self, model, lr=1e-2):
        self.model = model
        self.opt = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
        self.last = None

    def criterion(self, x, y):
        return F.cross_entropy(self.model(x), y)

    def objective(self, loss):
        """The loss, and a charge for getting worse."""
        if self.last is None:
            return loss
        return loss + 0.5 * F.relu(loss - self.last)

    def step(self, x, y):
        loss = self.criterion(x, y)
        objective = self.objective(loss)
        self.last = loss
        self.opt.zero_grad()
        objective.backward()
        self.opt.step()
        return objective.item()


model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))
trainer = Trainer(model)
for i in range(8):
    print(i, trainer.step(torch.randn(5, 4), torch.randint(0, 3, (5,))))

# told at: self.last = loss
# fails: backward through the graph a second time
