import torch
from torch import nn

torch.manual_seed(0)
encoder, decoder = nn.Linear(6, 2), nn.Linear(2, 6)
optimizer = torch.optim.SGD([*encoder.parameters(), *decoder.parameters()], lr=0.1)


def losses(x):
    code = torch.tanh(encoder(x))
    return {"recon": (decoder(code) - x).pow(2).mean(), "prior": code.pow(2).mean()}


for _ in range(2):
    optimizer.zero_grad()
    for name, loss in losses(torch.randn(8, 6)).items():
        loss.backward()
    optimizer.step()

# told at: loss.backward()
# fails: backward through the graph a second time
