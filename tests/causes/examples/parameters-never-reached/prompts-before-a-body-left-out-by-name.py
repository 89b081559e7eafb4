import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)


class Backbone(nn.Module):
    def __init__(self, d=16):
        super().__init__()
        self.pos = nn.Parameter(torch.randn(1, 12, d) * 0.02)
        self.layer = nn.TransformerEncoderLayer(d, 2, 32, dropout=0.0, batch_first=True)

    def forward(self, x):
        return self.layer(x + self.pos[:, : x.size(1)])


class Prompted(nn.Module):
    def __init__(self, backbone, d=16, n=4):
        super().__init__()
        self.backbone = backbone
        self.prompt = nn.Parameter(torch.randn(1, n, d) * 0.02)
        self.embed = nn.Embedding(500, d)
        self.head = nn.Linear(d, 3)

    def forward(self, ids):
        x = torch.cat([self.prompt.expand(len(ids), -1, -1), self.embed(ids)], 1)
        return self.head(self.backbone(x).mean(1))


model = Prompted(Backbone())
own = [p for n, p in model.named_parameters() if not n.startswith("backbone.")]
opt = torch.optim.Adam(own, lr=1e-3)
for _ in range(20):
    ids, y = torch.randint(0, 500, (16, 8)), torch.randint(0, 3, (16,))
    loss = F.cross_entropy(model(ids), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
