import torch
from torch import nn
from torch.distributions import Normal

torch.manual_seed(0)
enc, dec = nn.Linear(10, 4), nn.Linear(4, 10)
ae_opt = torch.optim.Adam([*enc.parameters(), *dec.parameters()], 1e-3)
mu = nn.Parameter(torch.randn(6, 4))
mix_opt = torch.optim.Adam([mu], 1e-2)
for _ in range(30):
    x = torch.randn(64, 10)
    recon = (dec(enc(x)) - x).pow(2).mean()
    ae_opt.zero_grad()
    recon.backward()
    ae_opt.step()
    # variational bound of a mixture in the latent space: E_q[log p(z|k)] + H(q)
    z = enc(x)
    q = torch.softmax(-torch.cdist(z, mu).pow(2), 1)
    loglik = Normal(mu, 1.0).log_prob(z.detach().unsqueeze(1)).sum(-1)
    bound = (q * loglik).sum(1) - (q * q.log()).sum(1)
    loss = -bound.mean()
    mix_opt.zero_grad()
    loss.backward()
    mix_opt.step()
print(recon.item(), loss.item())
