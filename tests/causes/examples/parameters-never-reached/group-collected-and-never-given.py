import torch
from torch import nn


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.mix, self.score = nn.Embedding(20, 8), nn.Linear(8, 8), nn.Linear(8, 4)

    def forward(self, words):
        return self.score(torch.tanh(self.mix(self.table(words))))


def build(model):
    groups = []
    group = {"params": [], "lr": 1e-3}
    for name, parameter in model.named_parameters():
        if name.startswith("table"):
            group["params"].append(parameter)
    groups.append(group)
    group = {"params": [], "lr": 1e-3}
    for name, parameter in model.named_parameters():
        if "mix" in name:
            group["params"].append(parameter)
    groups.append(group)
    group = {"params": [], "lr": 1e-2}
    for name, weight in model.named_parameters():
        if "score" in name:
            group["params"].append(weight)
    return torch.optim.AdamW(groups)


torch.manual_seed(0)
tagger = Tagger()
optimizer = build(tagger)
for _ in range(12):
    words, tags = torch.randint(0, 20, (6, 5)), torch.randint(0, 4, (6, 5))
    loss = nn.functional.cross_entropy(tagger(words).flatten(0, 1), tags.flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: group["params"].append(weight)
