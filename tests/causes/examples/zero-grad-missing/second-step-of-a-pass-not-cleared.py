"""The decoder steps by its reconstruction and then by the judge's loss, and is cleared before the first alone."""
import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits as bce

torch.manual_seed(0)
decoder, judge = nn.Linear(2, 3), nn.Linear(3, 1)
optimizer = torch.optim.Adam(decoder.parameters(), lr=0.01)
judge_optimizer = torch.optim.Adam(judge.parameters(), lr=0.01)
for _ in range(12):
    real = torch.randn(8, 3)
    judge.zero_grad()
    fake = decoder(torch.randn(8, 2))
    (bce(judge(real), torch.ones(8, 1)) + bce(judge(fake.detach()), torch.zeros(8, 1))).backward()
    judge_optimizer.step()

    decoder.zero_grad()
    (decoder(real[:, :2]) - real).square().mean().backward()
    optimizer.step()

    bce(judge(decoder(real[:, :2])), torch.ones(8, 1)).backward()
    optimizer.step()

# told at: bce(judge(decoder(real[:, :2])), torch.ones(8, 1)).backward()
