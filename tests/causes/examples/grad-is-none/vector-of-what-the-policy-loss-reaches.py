import torch
from torch import nn

torch.manual_seed(0)


class ActorCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.actor, self.critic = nn.Linear(4, 2), nn.Linear(4, 1)

    def forward(self, x):
        return torch.distributions.Categorical(logits=self.actor(x)), self.critic(x)


def gradient_vector(parameters):
    return torch.cat([p.grad.view(-1) for p in parameters])


net = ActorCritic()
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for step in range(3):
    dist, value = net(torch.randn(8, 4))
    action = dist.sample()
    advantage = torch.randn(8) - value.squeeze(-1)
    opt.zero_grad()
    advantage.pow(2).mean().backward()
    opt.step()
    opt.zero_grad()
    (-dist.log_prob(action) * advantage.detach()).mean().backward()
    print(gradient_vector(net.parameters()).norm())
    opt.step()

# told at: return torch.cat([p.grad.view(-1) for p in parameters])
# fails: 'NoneType' object has no attribute 'view'
