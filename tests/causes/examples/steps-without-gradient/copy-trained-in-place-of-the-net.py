"""The copy that is to follow is trained and the net follows it; the judge puts a new parameter in place of one of its own."""
import copy

import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits as bce


class Judge(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(2, 4, bias=False), nn.Linear(4, 1)
        self.size = float(self.first.weight.detach().norm())

    def forward(self, x):
        self.first.weight = nn.Parameter(self.first.weight.detach() * self.size / self.first.weight.detach().norm())
        return self.last(torch.relu(self.first(x)))


def train(net, average, judge, optimizer, judge_optimizer):
    for _ in range(12):
        judge_optimizer.zero_grad()
        bce(judge(torch.randn(8, 2) + 1), torch.ones(8, 1)).backward()
        bce(judge(net(torch.randn(8, 3))), torch.zeros(8, 1)).backward()
        judge_optimizer.step()
        optimizer.zero_grad()
        bce(judge(net(torch.randn(8, 3))), torch.ones(8, 1)).backward()
        optimizer.step()
        for mine, other in zip(average.parameters(), net.parameters(), strict=True):
            mine.data.mul_(0.99).add_(other.data, alpha=0.01)


torch.manual_seed(0)
artist = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
smooth, judge = copy.deepcopy(artist), Judge()
optimizer = torch.optim.Adam(artist.parameters(), lr=0.01)
judge_optimizer = torch.optim.Adam(judge.parameters(), lr=0.01)
train(smooth, artist, judge, optimizer, judge_optimizer)

# told at: optimizer.step()
