import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)


class Recorder:
    def __init__(self):
        self.start()

    def start(self):
        self.total, self.count = 0, 0

    def add(self, loss):
        self.total = self.total + loss
        self.count += 1
        return self

    @property
    def mean(self):
        return self.total / self.count


def train(model, opt, batches, every=3):
    rec = Recorder()
    for i, (x, y) in enumerate(batches, 1):
        rec.add(F.l1_loss(model(x), y))
        if i % every:
            continue
        opt.zero_grad()
        rec.mean.backward()
        opt.step()
        print(i, rec.mean.item())
        rec.start()


model = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 1))
train(model, torch.optim.Adam(model.parameters()), [(torch.randn(4, 3), torch.randn(4, 1)) for _ in range(12)])
