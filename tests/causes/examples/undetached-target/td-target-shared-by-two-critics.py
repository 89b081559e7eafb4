import torch
from torch import nn

torch.manual_seed(0)


def mlp():
    return nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))


critics = {name: mlp() for name in ("left", "right")}
optimizers = {name: torch.optim.Adam(net.parameters()) for name, net in critics.items()}
target_net = mlp()
obs, next_obs, reward = torch.randn(7, 3), torch.randn(7, 3), torch.randn(7, 1)
target = reward + 0.9 * target_net(next_obs)
for name, net in critics.items():
    loss = nn.functional.mse_loss(net(obs), target)
    optimizers[name].zero_grad()
    loss.backward()
    optimizers[name].step()

# told at: target = reward + 0.9 * target_net(next_obs)
# fails: backward through the graph a second time
