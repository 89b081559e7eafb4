import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)


class World(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRUCell(6, 10)
        self.obs = nn.Linear(10, 4)
        self.reward = nn.Linear(10, 1)


wm = World()
actor, critic = nn.Linear(10, 2), nn.Linear(10, 1)
wm_opt = torch.optim.Adam(wm.parameters(), 1e-3)
ac_opt = torch.optim.Adam(actor.parameters(), 1e-3)
cr_opt = torch.optim.Adam(critic.parameters(), 1e-3)


def observe(obs, act):
    h, out = torch.zeros(obs.shape[1], 10), []
    for o, a in zip(obs, act):
        h = wm.rnn(torch.cat([o, a], -1), h)
        out.append(h)
    return torch.stack(out)


def imagine(h, steps=3):
    states, rewards = [], []
    for _ in range(steps):
        a = torch.tanh(actor(h))
        h = wm.rnn(torch.cat([wm.obs(h), a], -1), h)
        states.append(h)
        rewards.append(wm.reward(h))
    return torch.stack(states), torch.stack(rewards)


for it in range(3):
    obs, act = torch.randn(5, 3, 4), torch.randn(5, 3, 2)
    h = observe(obs, act)
    wm_loss = F.mse_loss(wm.obs(h), obs)
    wm_opt.zero_grad()
    wm_loss.backward()
    states, rewards = imagine(h[-1])
    actor_loss = -rewards.mean()
    ac_opt.zero_grad()
    actor_loss.backward()
    value_loss = F.mse_loss(critic(states.detach()), rewards.detach())
    cr_opt.zero_grad()
    value_loss.backward()
    for o in (wm_opt, ac_opt, cr_opt):
        o.step()
    print(it, wm_loss.item(), actor_loss.item())

# told at: states, rewards = imagine(h[-1])
# fails: backward through the graph a second time
