import torch
from torch import nn


class Adapted(nn.Module):
    def __init__(self, base):
        super().__init__()
        self.base = base
        self.down = nn.Linear(8, 2, bias=False)
        self.up = nn.Linear(2, 8, bias=False)

    def forward(self, x):
        return self.base(x) + self.up(self.down(x))


def prepare(model):
    for p in model.parameters():
        p.requires_grad = False
    model[0].register_forward_hook(lambda module, args, output: output.requires_grad_())
    return model


class Trainer:
    def __init__(self, model):
        self.model = prepare(model)
        groups = [
            [p for p in model.parameters() if p.requires_grad and (p.dim() > 1) is wide] for wide in (True, False)
        ]
        self.optimizer = torch.optim.AdamW(
            [{"params": g, "weight_decay": 0.01 * (len(g) > 1)} for g in groups], lr=0.01
        )

    def train(self, steps):
        for _ in range(steps):
            ids = torch.randint(0, 10, (16,))
            self.optimizer.zero_grad()
            nn.functional.cross_entropy(self.model(ids), (ids + 1) % 10).backward()
            self.optimizer.step()


torch.manual_seed(0)
Trainer(nn.Sequential(nn.Embedding(10, 8), Adapted(nn.Linear(8, 8)), nn.Linear(8, 10))).train(6)

# told at: p.requires_grad = False
