import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head, self.gate = nn.Linear(6, 16), nn.Linear(16, 3), nn.Linear(16, 1)

    @torch.no_grad()
    def weights(self, f):
        return self.gate(f).sigmoid()

    def forward(self, x):
        f = self.body(x).relu()
        return self.head(f), self.weights(f)

torch.manual_seed(0)
model = Net()
model.gate.load_state_dict({"weight": torch.full((1, 16), 0.1), "bias": torch.zeros(1)})
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for step in range(20):
    out, w = model(torch.randn(8, 6))
    loss = (w.squeeze(1) * nn.functional.cross_entropy(out, torch.randint(0, 3, (8,)), reduction="none")).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
