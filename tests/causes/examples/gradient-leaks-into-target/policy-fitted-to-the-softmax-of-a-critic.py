import torch
from torch import nn
from torch.distributions import Categorical

torch.manual_seed(0)
policy, critic = nn.Linear(4, 3), nn.Linear(4, 3)
p_opt, c_opt = torch.optim.Adam(policy.parameters(), 1e-2), torch.optim.Adam(critic.parameters(), 1e-2)
actions = torch.arange(3)[:, None]
for _ in range(30):
    s, a = torch.randn(64, 4), torch.randint(0, 3, (64,))
    r = (a == 1).float()
    fit = (critic(s).gather(1, a[:, None]).squeeze(1) - r).pow(2).mean()
    c_opt.zero_grad()
    fit.backward()
    c_opt.step()
    d = Categorical(logits=policy(s))
    logp = d.log_prob(actions.expand(3, 64)).t()
    target = torch.softmax(critic(s) / 0.1, 1)
    # reverse KL between the policy and the soft-max policy of the critic
    loss = (logp.exp() * (logp - target.log())).sum(1).mean()
    p_opt.zero_grad()
    loss.backward()
    p_opt.step()
print(loss.item())
