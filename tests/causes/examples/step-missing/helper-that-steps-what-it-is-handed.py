"""A helper steps whatever it is handed: the judge in each pass, and the artist, into which its loss leaks, later on."""
import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits as bce


def update(opt, loss):
    opt.zero_grad()
    loss.backward()
    opt.step()


torch.manual_seed(0)
artist, judge = nn.Linear(2, 2), nn.Linear(2, 1)
opt = torch.optim.Adam(artist.parameters())
judge_opt = torch.optim.Adam(judge.parameters())
for i in range(12):
    fake = artist(torch.randn(8, 2))
    artist.zero_grad()
    update(judge_opt, bce(judge(torch.randn(8, 2) + 1), torch.ones(8, 1)) + bce(judge(fake), torch.zeros(8, 1)))
    if i >= 100:
        update(opt, bce(judge(artist(torch.randn(8, 2))), torch.ones(8, 1)))
