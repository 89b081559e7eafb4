import torch, torch.nn as nn
torch.manual_seed(0)
class ViT(nn.Module):
    def __init__(self):
        super().__init__()
        self.patch = nn.Linear(12, 16)
        self.cls = nn.Parameter(torch.zeros(1, 1, 16))
        self.pos = nn.Parameter(torch.randn(1, 5, 16) * 0.02)
        self.blocks = nn.ModuleList([nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, dropout=0.0) for _ in range(2)])
        self.head = nn.Linear(16, 4)
    def forward(self, x):
        x = torch.cat([self.cls.expand(x.size(0), -1, -1), self.patch(x)], 1) + self.pos
        for b in self.blocks:
            x = b(x)
        return self.head(x[:, 0])
def groups(model, lr):
    decay, no_decay = [], []
    for name, module in model.named_children():
        for n, p in module.named_parameters():
            (no_decay if p.ndim == 1 else decay).append(p)
    return [{"params": decay, "weight_decay": 0.05}, {"params": no_decay, "weight_decay": 0.0}]
model = ViT()
opt = torch.optim.AdamW(groups(model, 1e-3), lr=1e-3)
for it in range(15):
    x = torch.randn(8, 4, 12); y = torch.randint(0, 4, (8,))
    loss = nn.functional.cross_entropy(model(x), y)
    opt.zero_grad(); loss.backward(); opt.step()
print(f"{loss.item():.4f}")

# told at: opt = torch.optim.AdamW(groups(model, 1e-3), lr=1e-3)
