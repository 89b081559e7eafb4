import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = nn.Linear(6, 3), nn.Linear(3, 6)
        self.frozen = nn.Parameter(torch.ones(3))

    def forward(self, x):
        return self.encoder(x) * self.frozen.detach()


torch.manual_seed(0)
model = Model()
optimizer = torch.optim.Adam(model.parameters())
rounded = []
for _ in range(8):
    x = torch.randn(16, 6)
    z = model(x)
    code = z + (torch.round(z) - z).detach()
    rounded.append((z.detach() + (torch.round(z) - z).detach()).mean().item())
    loss = nn.functional.mse_loss(model.decoder(code), x)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(len(rounded))
