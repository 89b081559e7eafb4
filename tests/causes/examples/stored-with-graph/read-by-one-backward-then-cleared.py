import torch
from torch import nn

torch.manual_seed(0)
policy = nn.Linear(4, 2)
optimizer = torch.optim.SGD(policy.parameters(), lr=0.05)
log_probs = []
for episode in range(3):
    for _ in range(5):
        dist = torch.distributions.Categorical(logits=policy(torch.randn(4)))
        log_probs.append(dist.log_prob(dist.sample()))
    loss = -torch.stack(log_probs).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    log_probs.clear()
