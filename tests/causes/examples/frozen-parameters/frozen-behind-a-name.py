import torch
from torch import nn

torch.manual_seed(0)
encoder, decoder, prior = nn.Linear(4, 2), nn.Linear(2, 4), nn.Linear(2, 2)
optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()])
pretrained = [*encoder.parameters(), *decoder.parameters()]
for fixed in pretrained:
    fixed.requires_grad = False
for weight in prior.parameters():
    weight.requires_grad = False
x = torch.randn(8, 4)
loss = (decoder(torch.tanh(encoder(x))) - x).pow(2).mean()
loss.backward()
optimizer.step()

# told at: fixed.requires_grad = False
# fails: element 0 of tensors does not require grad
