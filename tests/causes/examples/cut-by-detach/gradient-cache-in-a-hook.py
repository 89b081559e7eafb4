import torch
from torch import nn

torch.manual_seed(0)
encoder = nn.Linear(4, 3)
optimizer = torch.optim.SGD(encoder.parameters(), lr=0.1)


def cached_loss(batch):
    with torch.no_grad():
        codes = torch.cat([encoder(part) for part in batch.split(2)])
    codes.requires_grad_()
    loss = (codes @ codes.t() - torch.eye(len(codes))).pow(2).mean()
    loss.backward()

    def second_pass(gradient):
        with torch.enable_grad():
            for part, wanted in zip(batch.split(2), codes.grad.split(2), strict=True):
                (encoder(part) * wanted * gradient).sum().backward()

    surrogate = loss.detach().requires_grad_()
    surrogate.register_hook(second_pass)
    return surrogate


for _ in range(8):
    optimizer.zero_grad()
    cached_loss(torch.randn(6, 4)).backward()
    optimizer.step()
