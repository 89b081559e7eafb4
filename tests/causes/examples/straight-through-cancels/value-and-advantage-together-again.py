import torch
from torch import nn

torch.manual_seed(0)
body, action, worth = nn.Linear(5, 16), nn.Linear(16, 1), nn.Linear(16, 1)
optimizer = torch.optim.Adam([*body.parameters(), *action.parameters(), *worth.parameters()], lr=0.01)
for _ in range(8):
    seen, move = torch.randn(32, 4), torch.randn(32, 1)
    hidden = torch.tanh(body(torch.cat([seen, move], 1)))
    reward = -((move - seen[:, :1]) ** 2)
    value = worth(hidden)
    advantage = action(hidden) - value
    # the two make up the value of the action, which is learned by that; the state's has its own term
    loss = (advantage + value - reward).pow(2).mean() + (value - reward + 0.1).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
