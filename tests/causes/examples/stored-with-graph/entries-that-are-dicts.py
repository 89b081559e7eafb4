import torch
from torch import nn
from torch.distributions import Categorical

torch.manual_seed(0)
policy = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2))
optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)


def collect():
    buffer = []
    for _ in range(5):
        state = torch.randn(3)
        dist = Categorical(logits=policy(state))
        action = dist.sample()
        buffer.append({"state": state, "action": action, "logp": dist.log_prob(action), "reward": float(action == 0)})
    return buffer


def update(batch):
    for epoch in range(3):
        logp = torch.stack([b["logp"] for b in batch])
        reward = torch.tensor([b["reward"] for b in batch])
        loss = -(logp * reward).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


for _ in range(2):
    update(collect())

# told at: buffer.append({"state": state, "action": action, "logp": dist.log_prob(action), "reward": float(action == 0)})
# fails: backward through the graph a second time
