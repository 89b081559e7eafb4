import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Linear(10, 32)
        self.adapter = nn.Linear(32, 8)
        self.head = nn.Linear(8, 4)

    def forward(self, x):
        return self.head(self.adapter(self.encoder(x).relu()).relu())


class Trainer:
    PHASES = {"pretrain": ["encoder", "head"], "adapt": ["adapter"], "all": ["encoder", "adapter", "head"]}

    def __init__(self, model, phase="pretrain"):
        self.model = model
        parts = self.PHASES[phase]
        params = [p for part in parts for p in getattr(model, part).parameters()]
        self.opt = torch.optim.Adam(params, lr=1e-3)

    def fit(self, steps):
        for _ in range(steps):
            loss = F.cross_entropy(self.model(torch.randn(16, 10)), torch.randint(0, 4, (16,)))
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
        return loss.item()


print(Trainer(Model(), "pretrain").fit(30))
