import torch
from torch import nn

torch.manual_seed(0)
encoder, decoder = nn.GRU(4, 8), nn.Linear(8, 3)
optimizer = torch.optim.SGD([*encoder.parameters(), *decoder.parameters()], lr=0.1)


def train(batch, target):
    optimizer.zero_grad()
    outputs, hidden = encoder(batch)
    seen = torch.zeros(10, 6, 8)
    for i in range(first_outputs.size(0)):
        seen[i] = first_outputs[i]
    loss = nn.functional.mse_loss(decoder(seen.sum(0) + hidden[0]), target)
    loss.backward()
    optimizer.step()


# one batch, to see the shapes
first_outputs, first_hidden = encoder(torch.randn(5, 6, 4))
print(first_outputs.shape, first_hidden.shape)
for _ in range(4):
    train(torch.randn(5, 6, 4), torch.randn(6, 3))

# told at: first_outputs, first_hidden = encoder(torch.randn(5, 6, 4))
# fails: Trying to backward through the graph a second time
