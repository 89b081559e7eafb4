import torch
from torch import nn


class Adapted(nn.Module):
    def __init__(self, base, rank=2):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.lora_a = nn.Parameter(0.1 * torch.randn(rank, base.in_features))
        self.lora_b = nn.Parameter(torch.zeros(base.out_features, rank))

    def forward(self, x):
        return self.base(x) + x @ self.lora_a.T @ self.lora_b.T


torch.manual_seed(0)
net = nn.Sequential(Adapted(nn.Linear(6, 8)), nn.ReLU(), Adapted(nn.Linear(8, 3)))
adapters = [p for name, p in net.named_parameters() if "lora_A" in name or "lora_b" in name]
optimizer = torch.optim.AdamW(adapters, lr=1e-2)
x, y = torch.randn(50, 6), torch.randint(0, 3, (50,))
for _ in range(12):
    loss = nn.functional.cross_entropy(net(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: optimizer = torch.optim.AdamW(adapters, lr=1e-2)
