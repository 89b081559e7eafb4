import torch
from torch import nn

torch.manual_seed(0)
actor, first, second = nn.Linear(3, 1), nn.Linear(4, 1), nn.Linear(4, 1)
actor_optimizer = torch.optim.Adam(actor.parameters(), lr=0.01)
first_optimizer = torch.optim.Adam(first.parameters(), lr=0.01)
second_optimizer = torch.optim.Adam(second.parameters(), lr=0.01)
for _ in range(20):
    state, action, returns = torch.randn(16, 3), torch.randn(16, 1), torch.randn(16, 1)
    tried = torch.cat([state, actor(state)], dim=1)
    loss = -torch.min(first(tried), second(tried)).mean()  # what the critics get of this is cleared before their own
    actor_optimizer.zero_grad()
    loss.backward()
    actor_optimizer.step()
    seen = torch.cat([state, action], dim=1)
    losses = [(critic(seen) - returns).pow(2).mean() for critic in (first, second)]
    for optimizer, fit in zip((first_optimizer, second_optimizer), losses):
        optimizer.zero_grad()
        fit.backward()
        optimizer.step()
print("trained")
