import torch
from torch import nn
from torch.nn.functional import softplus

torch.manual_seed(0)
painter = nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, 5))
judge = nn.Sequential(nn.Linear(5, 6), nn.Tanh(), nn.Linear(6, 1))
p_optimizer = torch.optim.Adam(painter.parameters())
j_optimizer = torch.optim.Adam(judge.parameters())

for step in range(4):
    noise, real = torch.randn(8, 3), torch.randn(8, 5)
    painted = painter(noise)
    scores = judge(painted)
    true = judge(real)
    p_loss = softplus(-scores).mean()
    j_loss = softplus(scores).mean() + softplus(-true).mean()
    if step > 0:
        p_loss.backward(retain_graph=True)
        p_optimizer.step()
        j_optimizer.zero_grad()
        j_loss.backward()
        j_optimizer.step()
    p_optimizer.zero_grad()

# told at: j_loss = softplus(scores).mean() + softplus(-true).mean()
# fails: modified by an inplace operation
