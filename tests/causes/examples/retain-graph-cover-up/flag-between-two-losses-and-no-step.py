import torch
from torch import nn

torch.manual_seed(0)
encoder = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 8))
heads = {name: nn.Linear(8, 1) for name in ("reward", "done")}
params = [p for m in (encoder, *heads.values()) for p in m.parameters()]
optimizer = torch.optim.AdamW(params)
for _ in range(3):
    z = encoder(torch.randn(5, 4))
    optimizer.zero_grad()
    heads["reward"](z).pow(2).mean().backward(retain_graph=True)
    heads["done"](z).sigmoid().mean().backward()
    optimizer.step()
