import torch
from torch import nn


class Autoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = nn.Linear(6, 2), nn.Linear(2, 6)

    @torch.no_grad()
    def reconstruct(self, x):
        return self.decoder(self.encoder(x))


@torch.no_grad()
def validate(model):
    x = torch.randn(16, 6)
    return (model.reconstruct(x) - x).pow(2).mean().item()


torch.manual_seed(0)
model = Autoencoder()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for batch in range(6):
    x = torch.randn(16, 6)
    optimizer.zero_grad()
    try:
        (model.reconstruct(x) - x).pow(2).mean().backward()
    except RuntimeError as e:
        print(f"batch {batch} failed: {e}")
        continue
    optimizer.step()
print(validate(model))

# told at: @torch.no_grad()
