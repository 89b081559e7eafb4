import torch
from torch import nn

torch.manual_seed(0)
painter = nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, 10))
valuer = nn.Sequential(nn.Linear(5, 6), nn.Tanh(), nn.Linear(6, 2))
p_optimizer = torch.optim.Adam(painter.parameters())
v_optimizer = torch.optim.Adam(valuer.parameters())


def halves(pair):
    return torch.softmax(pair[0], -1), torch.tanh(pair[1])


for step in range(4):
    real, paid = torch.randn(8, 5), torch.rand(8)
    first, second = painter(torch.randn(8, 3)).chunk(2, dim=1)
    (colour, line) = halves((first, second))
    worth_real, _ = valuer(real).unbind(1)
    worth_made, _ = valuer(colour + line).unbind(1)
    valued = (worth_real - paid).abs().mean() + (worth_made - paid / 2).abs().mean()
    wanted = -worth_made.mean()
    p_optimizer.zero_grad()
    v_optimizer.zero_grad()
    wanted.backward(retain_graph=True)
    p_optimizer.step()
    valued.backward()
    v_optimizer.step()

# told at: valued = (worth_real - paid).abs().mean() + (worth_made - paid / 2).abs().mean()
# fails: modified by an inplace operation
