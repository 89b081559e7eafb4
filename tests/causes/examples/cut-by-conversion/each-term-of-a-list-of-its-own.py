import torch
from torch import nn

torch.manual_seed(0)
policy = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2))
optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
for episode in range(6):
    log_probs, entropies = [], []
    for _ in range(5):
        dist = torch.distributions.Categorical(logits=policy(torch.randn(3)))
        log_probs.append(dist.log_prob(dist.sample()))
        entropies.append(dist.entropy())
    returns = torch.randn(5)
    log_probs = torch.tensor(log_probs)
    entropies = torch.tensor(entropies)
    loss = (-log_probs * returns - 0.01 * entropies).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: entropies = torch.tensor(entropies)
# fails: does not require grad
