import torch
from torch import nn

torch.manual_seed(0)
net, critic = nn.Linear(4, 4), nn.Sequential(nn.Linear(4, 6), nn.Softplus(), nn.Linear(6, 1))
of_net = torch.optim.SGD(net.parameters(), lr=0.05)
of_critic = torch.optim.SGD(critic.parameters(), lr=0.01, momentum=0.9)
for step in range(12):
    x, held_out = torch.randn(8, 4), torch.randn(8, 4)
    made = net(x)
    of_net.zero_grad()
    loss = (made - x).square().mean() + nn.functional.softplus(critic(made)).mean()
    loss.backward(retain_graph=True)
    wanted = torch.autograd.grad(critic(net(held_out)).tanh().mean(), list(critic.parameters()))
    of_net.step()
    of_critic.zero_grad()
    for p, g in zip(critic.parameters(), wanted, strict=True):
        p.grad = g
    of_critic.step()
