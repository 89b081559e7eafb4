import torch
from torch import nn

torch.manual_seed(0)
model, actor = nn.GRUCell(3, 4), nn.Linear(4, 3)
model_optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
actor_optimizer = torch.optim.SGD(actor.parameters(), lr=0.1)


def learn(x):
    h, loss, rows = torch.zeros(8, 4), 0.0, []
    for t in range(4):
        h = model(x[t], h)
        state = torch.tanh(h)
        rows.append(state)
        loss = loss + (state[:, :3] - x[t]).pow(2).mean()
    model_optimizer.zero_grad()
    loss.backward()
    model_optimizer.step()
    return torch.stack(rows).flatten(0, 1)


for _ in range(6):
    states = learn(torch.randn(4, 8, 3))
    actor_loss = actor(states).pow(2).mean()
    actor_optimizer.zero_grad()
    actor_loss.backward()
    actor_optimizer.step()

# told at: return torch.stack(rows).flatten(0, 1)
# fails: backward through the graph a second time
