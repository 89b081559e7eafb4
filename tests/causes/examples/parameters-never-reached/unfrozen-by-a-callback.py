import torch
from torch import nn


class Release:
    def __init__(self, part, at):
        self.part, self.at = part, at

    def begin(self, trainer, step):
        if step == self.at:
            trainer.parts[self.part].requires_grad_(True)


class Trainer:
    def __init__(self, parts, held_back):
        self.parts = nn.ModuleDict(parts)
        for name in held_back:
            self.parts[name].requires_grad_(False)
        learning = [p for name, part in self.parts.items() if name != "judge" for p in part.parameters() if p.requires_grad]
        self.optimizers = [torch.optim.Adam(learning, lr=1e-2)]

    def fit(self, callbacks):
        for step in range(36):
            for callback in callbacks:
                callback.begin(self, step)
            x = torch.randn(16, 4)
            loss = (self.parts["head"](torch.relu(self.parts["body"](x))) - x[:, :1]).pow(2).mean()
            self.parts.zero_grad()
            loss.backward()
            self.optimizers[0].step()


torch.manual_seed(0)
Trainer({"body": nn.Linear(4, 8), "head": nn.Linear(8, 1)}, ["body"]).fit([Release("body", 12)])

# told at: learning = [p for name, part in self.parts.items() if name != "judge" for p in part.parameters() if p.requires_grad]
