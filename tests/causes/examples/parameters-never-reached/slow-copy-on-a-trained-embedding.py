import copy
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)
obs = nn.Linear(6, 16)
q, mix = nn.Linear(16, 3), nn.Linear(3, 3)
q_slow = copy.deepcopy(q)
opt = torch.optim.Adam([*obs.parameters(), *q.parameters(), *mix.parameters()], 1e-3)
for step in range(40):
    s, r = torch.randn(32, 6), torch.randn(32)
    z = obs(s).tanh()
    a = q(z).argmax(1)
    pred = mix(q(z)).gather(1, a[:, None]).squeeze(1)
    with torch.no_grad():
        target = r + 0.9 * q_slow(obs(torch.randn(32, 6)).tanh()).max(1).values
    prior = F.kl_div(q(z).log_softmax(1), mix(q_slow(z)).softmax(1), reduction="batchmean")
    loss = F.mse_loss(pred, target) + 0.01 * prior
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 10 == 9:
        q_slow.load_state_dict(q.state_dict())
print(loss.item())
