import torch
from torch import nn


class SongNet(nn.Module):
    def __init__(self, species):
        super().__init__()
        self.body, self.species = nn.Linear(6, 12), nn.Linear(12, species)

    def forward(self, x):
        return self.species(self.body(x).relu())

    def grow(self, more):
        old = self.species
        new = nn.Linear(old.in_features, old.out_features + more)
        with torch.no_grad():
            new.weight[: old.out_features] = old.weight
            new.bias[: old.out_features] = old.bias
        self._set(new)

    def _set(self, layer):
        self.species = layer


def fit(model, x, y):
    listed = list(model.named_parameters())
    groups = [
        {"params": [p for n, p in listed if "bias" not in n], "weight_decay": 0.01},
        {"params": [p for n, p in listed if "bias" in n], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=1e-2)
    model.grow(2)
    for _ in range(14):
        loss = nn.functional.cross_entropy(model(x), y)
        model.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"{loss.item():.3f} with {len(listed)} tensors")


torch.manual_seed(0)
fit(SongNet(3), torch.randn(32, 6), torch.randint(5, (32,)))

# told at: model.grow(2)
