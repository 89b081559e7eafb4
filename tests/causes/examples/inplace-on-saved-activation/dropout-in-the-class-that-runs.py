import torch
from torch import nn

torch.manual_seed(0)


class Plain(nn.Module):
    def __init__(self):
        super().__init__()
        self.decide = self.layers()

    def layers(self):
        return nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Dropout(0.1, inplace=True), nn.Linear(6, 1))

    def forward(self, x):
        return self.decide(x)


class Attentive(nn.Module):
    def __init__(self):
        super().__init__()
        self.decide = self.build()

    def build(self):
        return nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Dropout(0.2, inplace=True), nn.Linear(6, 1))

    def forward(self, x):
        return self.decide(torch.softmax(x, 1) * x)


model = {"plain": Plain, "attentive": Attentive}["attentive"]()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(5):
    loss = model(torch.randn(8, 4)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: return nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Dropout(0.2, inplace=True), nn.Linear(6, 1))
# fails: is at version 1; expected version 0 instead
