import torch
from torch import nn

torch.manual_seed(0)
encoder, decoder, book = nn.Linear(8, 4), nn.Linear(4, 8), nn.Embedding(16, 4)
optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters(), *book.parameters()], lr=1e-2)
for step in range(12):
    x = torch.randn(16, 8)
    z = encoder(x)
    q = book(torch.cdist(z, book.weight).argmin(1))
    terms = (q - z.detach()).pow(2).mean() + 0.25 * (z - q.detach()).pow(2).mean()
    code = z + (q - z)
    loss = (decoder(code) - x).pow(2).mean() + terms
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
# told at: code = z + (q - z)
