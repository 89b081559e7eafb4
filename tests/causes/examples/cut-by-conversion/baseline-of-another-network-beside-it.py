import torch
from torch import nn

torch.manual_seed(0)
policy = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2))
critic = nn.Linear(3, 1)
optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
critic_opt = torch.optim.Adam(critic.parameters(), lr=1e-2)
for episode in range(6):
    log_probs, values = [], []
    for _ in range(5):
        s = torch.randn(3)
        dist = torch.distributions.Categorical(logits=policy(s))
        log_probs.append(dist.log_prob(dist.sample()))
        v = critic(s)
        values.append(v)
    returns = torch.randn(5)
    baseline = torch.tensor(values)
    log_probs = torch.tensor(log_probs)
    loss = ((returns - baseline) * -log_probs).mean()
    critic_opt.zero_grad()
    (torch.stack(values).squeeze() - returns).pow(2).mean().backward()
    critic_opt.step()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: log_probs = torch.tensor(log_probs)
# fails: does not require grad
