import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
delay = nn.Conv1d(1, 3, 5, padding=2)
filters = nn.Parameter(torch.randn(1, 3, 5))
optimizer = torch.optim.Adam([*delay.parameters(), filters], lr=0.01)
for step in range(20):
    sound = torch.randn(8, 1, 16)
    filters.data = F.normalize(filters.data, dim=2)
    loss = (F.conv1d(delay(sound).tanh(), filters, padding=2) - sound.roll(1, 2)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
