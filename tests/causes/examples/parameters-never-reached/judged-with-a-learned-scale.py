import torch, torch.nn as nn
torch.manual_seed(0)
gen = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 16))
feat = nn.Sequential(nn.Linear(16, 8), nn.Tanh(), nn.Linear(8, 8))
s = nn.Parameter(torch.zeros(1))
opt = torch.optim.Adam([*gen.parameters(), s], lr=1e-3)
for it in range(15):
    x = torch.randn(32, 16)
    out = gen(torch.randn(32, 8))
    loss = (feat(out) - feat(x)).pow(2).mean() * (-s).exp() + s + (out - x).abs().mean()
    opt.zero_grad(); loss.backward(); opt.step()
print(loss.item())
