import torch
from torch import nn


class Rotary(nn.Module):
    def __init__(self, dim, length):
        super().__init__()
        rates = 1.0 / 100 ** (torch.arange(0, dim, 2) / dim)
        angles = torch.outer(torch.arange(length), rates)
        self.register_buffer("turns", torch.polar(torch.ones_like(angles), angles))

    @torch.no_grad()
    def forward(self, x):
        turned = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2)) * self.turns[: x.size(1)]
        return torch.view_as_real(turned).flatten(2)


class Attention(nn.Module):
    def __init__(self, dim=8):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(dim, dim, bias=False) for _ in range(3))
        self.rotary = Rotary(dim, 16)

    def forward(self, x):
        q, k = self.rotary(self.query(x)), self.rotary(self.key(x))
        return nn.functional.scaled_dot_product_attention(q, k, self.value(x), is_causal=True)


torch.manual_seed(0)
model = nn.Sequential(nn.Embedding(12, 8), Attention(), nn.Linear(8, 12))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
for step in range(20):
    tokens = torch.randint(0, 12, (8, 9))
    loss = nn.functional.cross_entropy(model(tokens[:, :-1]).transpose(1, 2), tokens[:, 1:])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"{loss.item():.3f}")

# told at: @torch.no_grad()
