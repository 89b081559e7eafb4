import torch, torch.nn as nn
torch.manual_seed(0)
class ESN(nn.Module):
    def __init__(self):
        super().__init__(); self.win = nn.Linear(3, 64); self.res = nn.RNN(64, 64, batch_first=True); self.out = nn.Linear(64, 1)
    def forward(self, x): return self.out(self.res(self.win(x))[0])
net = ESN()
opt = torch.optim.Adam([*net.win.parameters(), *net.out.parameters()], lr=1e-3)
for it in range(15):
    x = torch.randn(8, 10, 3)
    loss = (net(x) - x.cumsum(1).sum(-1, keepdim=True)).pow(2).mean()
    opt.zero_grad(); loss.backward(); opt.step()
print(loss.item())
