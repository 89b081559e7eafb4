import torch
from torch import nn

torch.manual_seed(0)


class AE(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = nn.Linear(4, 3), nn.Linear(3, 4)

    def loss(self, x, disc, opt_d):
        z = self.encoder(x)
        fake = disc(z)
        d = disc(z.detach()).mean() - disc(torch.randn(5, 3)).mean()
        opt_d.zero_grad()
        d.backward()
        opt_d.step()
        return (self.decoder(z) - x).pow(2).mean() - fake.mean()


net = AE()
disc = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 1))
opt = torch.optim.Adam(net.parameters(), lr=0.01)
opt_d = torch.optim.Adam(disc.parameters(), lr=0.01)
for _ in range(6):
    loss = net.loss(torch.randn(5, 4), disc, opt_d)
    opt.zero_grad()
    loss.backward()
    opt.step()

# told at: fake = disc(z)
# fails: is at version 2; expected version 1 instead
