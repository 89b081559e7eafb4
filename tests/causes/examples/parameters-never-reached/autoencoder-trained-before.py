import torch, torch.nn as nn
torch.manual_seed(0)
class AE(nn.Module):
    def __init__(self):
        super().__init__(); self.enc = nn.Linear(16, 8); self.dec = nn.Linear(8, 16)
    def forward(self, x): return self.dec(self.enc(x).tanh())
ae = AE()
opt = torch.optim.Adam(ae.parameters(), lr=1e-3)
for it in range(10):
    x = torch.randn(32, 16); loss = (ae(x) - x).pow(2).mean()
    opt.zero_grad(); loss.backward(); opt.step()
del opt
stem, head = nn.Linear(10, 16), nn.Linear(16, 3)
clf = torch.optim.Adam([*stem.parameters(), *head.parameters()], lr=1e-3)
for it in range(12):
    loss = nn.functional.cross_entropy(head(ae(stem(torch.randn(32, 10)))), torch.randint(0, 3, (32,)))
    clf.zero_grad(); loss.backward(); clf.step()
print(loss.item())
