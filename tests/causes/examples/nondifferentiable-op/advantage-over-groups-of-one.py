import torch
from torch import nn

torch.manual_seed(0)
GROUP = 1
policy = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 4))
optimizer = torch.optim.Adam(policy.parameters())
for _ in range(12):
    prompts = torch.randn(8, 3).repeat_interleave(GROUP, 0)
    answers = torch.distributions.Categorical(logits=policy(prompts))
    chosen = answers.sample()
    reward = (chosen == 2).float().view(-1, GROUP)
    advantage = (reward - reward.mean(1, keepdim=True)).flatten()
    loss = -(answers.log_prob(chosen) * advantage).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: loss = -(answers.log_prob(chosen) * advantage).mean()
