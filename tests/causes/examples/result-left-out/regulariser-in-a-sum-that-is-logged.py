import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(20, 4)
        self.mlp = nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, ids):
        return self.mlp(self.emb(ids).flatten(1)).squeeze(1)

    def regularization(self):
        return 1e-3 * self.emb.weight.pow(2).sum() + 1e-3 * sum(p.pow(2).sum() for p in self.mlp.parameters())


model = Model()
optim = torch.optim.Adam(model.parameters(), lr=1e-2)
ids = torch.randint(0, 20, (64, 3))
y = (ids.sum(1) % 2).float()
for epoch in range(4):
    loss_epoch = total_loss_epoch = 0.0
    for i in range(4):
        x_batch, y_batch = ids[i * 16 : i * 16 + 16], y[i * 16 : i * 16 + 16]
        optim.zero_grad()
        loss = F.binary_cross_entropy_with_logits(model(x_batch), y_batch)
        total_loss = loss + model.regularization()
        loss_epoch += loss.item()
        total_loss_epoch += total_loss.item()
        loss.backward()
        optim.step()
    print(epoch, loss_epoch, total_loss_epoch)
# told at: loss.backward()
