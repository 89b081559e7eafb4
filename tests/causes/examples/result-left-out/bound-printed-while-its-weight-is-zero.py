import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
encoder, decoder = nn.Linear(16, 8), nn.Linear(4, 16)
opt = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=1e-2)
x = torch.randn(64, 16)
warm = 6
for epoch in range(10):
    mu, logvar = encoder(x).chunk(2, 1)
    z = mu + torch.randn_like(mu) * (0.5 * logvar).exp()
    recon = F.mse_loss(decoder(z), x)
    kl = -0.5 * (1 + logvar - mu**2 - logvar.exp()).mean()
    bound = recon + kl
    loss = recon if epoch < warm else recon + (epoch - warm + 1) / 4 * kl
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(epoch, loss.item(), -bound.item())
