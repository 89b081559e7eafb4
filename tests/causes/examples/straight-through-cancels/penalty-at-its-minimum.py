import torch
from torch import nn

torch.manual_seed(0)
policy, reference = nn.Linear(6, 4), nn.Linear(6, 4)
reference.load_state_dict(policy.state_dict())
optimizer = torch.optim.SGD(policy.parameters(), lr=1e-1)
for round_ in range(20):
    state = torch.randn(16, 6)
    action = torch.randint(0, 4, (16, 1))
    with torch.no_grad():
        fixed = reference(state).log_softmax(-1).gather(1, action)
    chosen = policy(state).log_softmax(-1).gather(1, action)
    # The gradient of exp(d) - d is zero where both are equal, and so they are until the reward counts.
    penalty = (fixed - chosen).exp() - (fixed - chosen) - 1
    reward = (action == 1).float() - 0.25
    loss = (penalty - min(1, max(0, round_ - 11)) * reward * chosen).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"{loss.item():.3f}")
