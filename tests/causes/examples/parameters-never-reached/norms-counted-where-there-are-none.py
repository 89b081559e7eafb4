import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, norm=nn.Identity):
        super().__init__()
        self.body, self.norm, self.tip = nn.Linear(6, 6), norm(), nn.Linear(6, 2)

    def forward(self, x):
        return self.tip(self.norm(self.body(x)).relu())


torch.manual_seed(0)
net, judge = Net(), nn.Linear(2, 1)  # the judge is left as it is
others = [*net.body.parameters(), *net.tip.parameters()]
norms, scales = net.norm.parameters(), (p for m in net.modules() if isinstance(m, nn.LayerNorm) for p in m.parameters())
print(sum(p.numel() for p in norms), sum(p.numel() for p in scales))
groups = [{"params": others}, {"params": norms, "weight_decay": 0.0}, {"params": scales, "lr": 1e-4}]
optimizer = torch.optim.AdamW(groups, lr=1e-2)
for _ in range(14):
    loss = judge(net(torch.randn(8, 6))).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
