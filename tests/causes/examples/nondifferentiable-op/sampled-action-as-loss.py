import torch
from torch import nn

torch.manual_seed(0)
policy = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))
optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)


def rollout(steps):
    for _ in range(steps):
        obs = torch.randn(4)
        probs = policy(obs).softmax(-1)
        action = torch.multinomial(probs, 1)
        yield action, float(action.item() == 1)


terms = [-action * reward for action, reward in rollout(6)]
loss = torch.cat(terms).float().mean()
optimizer.zero_grad()
loss.backward()
optimizer.step()

# told at: action = torch.multinomial(probs, 1)
# fails: does not require grad and does not have a grad_fn
