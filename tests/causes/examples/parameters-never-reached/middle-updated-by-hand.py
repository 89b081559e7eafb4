import torch, torch.nn as nn
torch.manual_seed(0)
class Net(nn.Module):
    def __init__(self):
        super().__init__(); self.a = nn.Linear(16, 32); self.mid = nn.Linear(32, 8); self.b = nn.Linear(8, 4)
    def forward(self, x): return self.b(self.mid(self.a(x)).relu())
net = Net()
opt = torch.optim.Adam([*net.a.parameters(), *net.b.parameters()], lr=1e-3)
for it in range(15):
    loss = nn.functional.cross_entropy(net(torch.randn(32, 16)), torch.randint(0, 4, (32,)))
    net.zero_grad(); loss.backward(); opt.step()
    with torch.no_grad():
        for p in net.mid.parameters():
            p.sub_(1e-2 * p.grad)
print(loss.item())
