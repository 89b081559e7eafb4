import torch
from torch import nn

torch.manual_seed(0)
policy = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))
optimizer = torch.optim.SGD(policy.parameters(), lr=0.1)
for _ in range(6):
    x = torch.randn(16, 4)
    loss = nn.functional.cross_entropy(policy(x), x[:, :3].argmax(1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
for _ in range(8):
    objective = torch.zeros((), requires_grad=True)
    optimizer.zero_grad()
    for x in torch.randn(5, 4):
        dist = torch.distributions.Categorical(logits=policy(x))
        action = dist.sample()
        chance = dist.log_prob(action).tolist()
        objective = objective - chance * float(action == x[:3].argmax())
    objective.backward()
    optimizer.step()

# told at: chance = dist.log_prob(action).tolist()
