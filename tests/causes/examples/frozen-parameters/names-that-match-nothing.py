import torch
from torch import nn

torch.manual_seed(0)


def choose(encoder, wanted):
    for p in encoder.parameters():
        p.requires_grad_(False)
    for name, p in encoder.named_parameters():
        if name in wanted:
            p.requires_grad_(True)


encoder = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3))
judge = nn.Linear(3, 1)
judge.requires_grad_(False)
choose(encoder, ["2"])
optimizer = torch.optim.SGD(encoder.parameters(), lr=0.1)
for step in range(3):
    loss = judge(encoder(torch.randn(5, 4))).pow(2).mean()
    loss.backward()
    optimizer.step()

# told at: p.requires_grad_(False)
# fails: does not require grad and does not have a grad_fn
