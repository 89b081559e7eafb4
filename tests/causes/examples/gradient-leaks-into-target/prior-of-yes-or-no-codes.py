import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)

context, prior, posterior = nn.Linear(6, 16), nn.Linear(16, 5), nn.Linear(24, 5)
decoder = nn.Linear(21, 8)
trained = [p for m in (context, prior, posterior, decoder) for p in m.parameters()]
optimizer = torch.optim.Adam(trained, lr=3e-3)
for step in range(12):
    about, seen = torch.randn(32, 6), (torch.rand(32, 8) > 0.5).float()
    hidden = context(about).tanh()
    p = prior(hidden).sigmoid()
    q = posterior(torch.cat([hidden, seen], dim=1)).sigmoid()
    code = (torch.logit(q, 1e-4) + torch.logit(torch.rand_like(q), 1e-4)).sigmoid()
    rebuilt = decoder(torch.cat([code, hidden], dim=1))
    entropy = -(q * q.log() + (1 - q) * (1 - q).log()).sum()
    divergence = F.binary_cross_entropy(p, q, reduction="sum") - entropy
    loss = F.binary_cross_entropy_with_logits(rebuilt, seen, reduction="sum") + divergence + q.sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
