import torch
from torch import nn


def fit(scaled):
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-7)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**127, enabled=scaled)
    for _ in range(30):
        y = model(torch.randn(8, 4))
        loss = y.pow(2).mean() * 1e3
        if not scaled:
            excess = y.pow(2).mean() - 100.0
            loss = loss + excess.sqrt()
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    return model, optimizer


torch.manual_seed(0)
first = fit(True)
second = fit(False)

# told at: loss = loss + excess.sqrt()
