import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
net = nn.Linear(4, 3)
log_multiplier = nn.Parameter(torch.zeros(()))
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
multiplier_optimizer = torch.optim.Adam([log_multiplier], lr=0.01)
for _ in range(10):
    x, y = torch.randn(16, 4), torch.randint(3, (16,))
    scores = net(x)
    excess = scores.logsumexp(1).mean() - 0.5
    multiplier = log_multiplier.exp()
    dual = -multiplier.detach() * excess.detach()
    primal = multiplier.detach() * excess
    loss = F.cross_entropy(scores, y) + primal + dual
    optimizer.zero_grad()
    multiplier_optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    multiplier_optimizer.step()
print("trained")

# told at: dual = -multiplier.detach() * excess.detach()
