import torch
from torch import nn

torch.manual_seed(0)
body, worth, gain = nn.Linear(4, 16), nn.Linear(16, 1), nn.Linear(16, 3)
optimizer = torch.optim.Adam([*body.parameters(), *worth.parameters(), *gain.parameters()], lr=0.01)
for _ in range(8):
    seen = torch.randn(32, 4)
    hidden = torch.relu(body(seen))
    value, advantage = worth(hidden), gain(hidden)
    q = value + (advantage - advantage.mean(-1, keepdim=True))
    # what was added to the value is held small: the value has no part in that
    loss = (q - seen[:, :3]).pow(2).mean() + 0.05 * (q - value).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
