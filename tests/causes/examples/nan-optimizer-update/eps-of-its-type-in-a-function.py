import torch
from torch import nn

torch.manual_seed(0)


def train():
    words = nn.Parameter(torch.randn(8, 4).half())
    optimizer = torch.optim.AdamW([words], lr=1e-3, weight_decay=0.0, eps=1e-4)
    for step in range(3):
        loss = words[: step + 2].float().square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(step)


train()
