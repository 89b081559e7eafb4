import torch
from torch import nn


class Sampler:
    def __init__(self, net):
        self.net = net

    def refined(self, guess, wanted):
        guess = guess.clone().requires_grad_(True)
        distance = (guess - wanted).abs().pow(3).sum()
        return guess.detach() - 0.1 * torch.autograd.grad(distance, guess)[0]

    def sample(self, x, wanted):
        for _ in range(3):
            x = x - 0.1 * self.net(x)
            x = self.refined(x, wanted)
        return x


torch.manual_seed(0)
net = nn.Linear(3, 3)
optimizer = torch.optim.Adam(net.parameters())
for _ in range(2):
    optimizer.zero_grad()
    net(torch.randn(4, 3)).pow(2).mean().backward()
    optimizer.step()
with torch.no_grad():
    start, wanted = torch.randn(2, 3), torch.randn(2, 3)
    picture = Sampler(net).sample(start, wanted)
print(picture.shape)

# told at: with torch.no_grad():
# fails: does not require grad and does not have a grad_fn
