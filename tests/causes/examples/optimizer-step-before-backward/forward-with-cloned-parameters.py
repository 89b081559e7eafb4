import torch
from torch import nn
from torch.func import functional_call

torch.manual_seed(0)
critic = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
actor = nn.Linear(4, 3)
opt = torch.optim.SGD(critic.parameters(), lr=0.1)
obs = torch.randn(5, 4)
cloned = {name: p.clone() for name, p in critic.named_parameters()}
actor_loss = -functional_call(critic, cloned, (actor(obs),)).mean()
critic(torch.randn(5, 3)).pow(2).mean().backward()
opt.step()
actor_loss.backward()
