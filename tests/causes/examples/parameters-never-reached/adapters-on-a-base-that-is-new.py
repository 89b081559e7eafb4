import torch, torch.nn as nn
torch.manual_seed(0)
class LoRA(nn.Module):
    def __init__(self, i, o, r=2):
        super().__init__()
        self.base = nn.Linear(i, o)
        self.A = nn.Parameter(torch.randn(r, i) * 0.01)
        self.B = nn.Parameter(torch.zeros(o, r))
    def forward(self, x):
        return self.base(x) + x @ self.A.t() @ self.B.t()
net = nn.Sequential(LoRA(16, 32), nn.ReLU(), LoRA(32, 32), nn.ReLU(), LoRA(32, 4))
opt = torch.optim.Adam([p for n, p in net.named_parameters() if n.endswith((".A", ".B"))], lr=1e-2)
for it in range(15):
    loss = nn.functional.cross_entropy(net(torch.randn(32, 16)), torch.randint(0, 4, (32,)))
    opt.zero_grad(); loss.backward(); opt.step()
print(loss.item())
