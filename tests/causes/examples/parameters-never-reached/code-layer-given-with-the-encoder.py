import torch, torch.nn as nn, torch.nn.functional as F
torch.manual_seed(0)
class VAE(nn.Module):
    def __init__(self, z=8):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(20, 32), nn.ReLU())
        self.z_net = nn.Linear(32, 2 * z)
        self.decoder = nn.Sequential(nn.Linear(z, 32), nn.ReLU(), nn.Linear(32, 20))
        self.optim_encoder = torch.optim.Adam([*self.encoder.parameters(), *self.z_net.parameters()], lr=1e-3)
        self.optim_decoder = torch.optim.Adam(self.decoder.parameters(), lr=1e-3)
    def encode(self, x):
        mu, logvar = self.z_net(self.encoder(x)).chunk(2, 1)
        return mu + torch.randn_like(mu) * (0.5 * logvar).exp(), mu, logvar
    def forward(self, x):
        z, mu, logvar = self.encode(x)
        xr = self.decoder(z)
        loss = F.mse_loss(xr, x, reduction="sum") - 0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).sum()
        self.optim_encoder.zero_grad(); loss.backward(); self.optim_encoder.step()
        z, mu, logvar = self.encode(x)
        loss2 = F.mse_loss(self.decoder(z), x, reduction="sum")
        self.optim_decoder.zero_grad(); loss2.backward(); self.optim_decoder.step()
        return loss.item(), loss2.item()
vae = VAE()
for it in range(15):
    out = vae(torch.randn(16, 20))
print(out)
