import torch
from torch import nn

torch.manual_seed(0)


class Trainer:
    def __init__(self):
        self.model = nn.Linear(3, 1)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.scaler = torch.amp.GradScaler("cpu")

    def clip(self):
        self.scaler.unscale_(self.optimizer)
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)

    def step(self, x, accumulate):
        for part in x.chunk(accumulate):
            loss = self.model(part).square().mean() / accumulate
            self.scaler.scale(loss).backward()
            self.clip()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad()


Trainer().step(torch.randn(8, 3), accumulate=2)

# told at: self.scaler.unscale_(self.optimizer)
# fails: unscale_() has already been called on this optimizer since the last update()
