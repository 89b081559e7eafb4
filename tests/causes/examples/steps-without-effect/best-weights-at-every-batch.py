import copy

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Conv1d(2, 6, 3), nn.ReLU(), nn.Flatten(), nn.Linear(36, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
best, least = copy.deepcopy(model.state_dict()), float("-inf")
for epoch in range(3):
    for _ in range(6):
        x, y = torch.randn(16, 2, 8), torch.randint(0, 3, (16,))
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if loss.item() > least:
            model.load_state_dict(best)
    print(epoch, loss.item())

# told at: model.load_state_dict(best)
