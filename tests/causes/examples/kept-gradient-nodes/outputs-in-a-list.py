import warnings

import torch
from torch import nn


class Trainer:
    def __init__(self):
        self.net = nn.Linear(4, 2)
        self.optimizer = torch.optim.AdamW(self.net.parameters(), lr=1e-2)
        self.shown = []

    def preview(self, x):
        out = self.net(x)
        self.shown.append(out)

    def step(self, x):
        loss = self.net(x).square().mean()
        if len(self.shown) == 2:
            loss.register_hook(self.told_by_the_engine)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()

    def told_by_the_engine(self, _):  # what it says on a GPU where the two streams differ
        text = "The AccumulateGrad node's stream does not match the stream of the node that produced the incoming gradient."
        warnings.warn_explicit(text, UserWarning, torch.autograd.graph.__file__, 1)


torch.manual_seed(0)
trainer = Trainer()
for _ in range(6):
    trainer.preview(torch.randn(2, 4))
    trainer.step(torch.randn(8, 4))

# told at: out = self.net(x)
