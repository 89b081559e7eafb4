import numpy as np
import torch
from torch import nn

torch.manual_seed(0)
painter = nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, 5))
valuer = nn.Sequential(nn.Linear(5, 6), nn.Tanh(), nn.Linear(6, 1))
p_optimizer = torch.optim.Adam(painter.parameters())
v_optimizer = torch.optim.Adam(valuer.parameters())


def price(picture):
    return torch.from_numpy(np.tanh(picture.detach().numpy()).sum(1, keepdims=True))


for step in range(4):
    real = torch.randn(8, 5)
    made = torch.softmax(painter(torch.randn(8, 3)), -1)
    paid = price(made)
    worth_made = valuer(made)
    valued = (valuer(real) - price(real)).abs().mean() + (worth_made - paid).abs().mean()
    wanted = -worth_made.mean()
    p_optimizer.zero_grad()
    v_optimizer.zero_grad()
    wanted.backward(retain_graph=True)
    p_optimizer.step()
    valued.backward()
    v_optimizer.step()

# told at: valued = (valuer(real) - price(real)).abs().mean() + (worth_made - paid).abs().mean()
# fails: modified by an inplace operation
