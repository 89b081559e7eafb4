"""Sentences of uneven length: a step is made once there have been enough words."""

import torch
from torch import nn

torch.manual_seed(0)
tagger = nn.Sequential(nn.Embedding(20, 8), nn.Linear(8, 3))
opt = torch.optim.Adam(tagger.parameters(), lr=0.01)
words = 0
for _ in range(60):
    sentence = torch.randint(0, 20, (int(torch.randint(3, 30, ())),))
    opt.zero_grad()
    loss = nn.functional.cross_entropy(tagger(sentence), sentence % 3, reduction="sum")
    loss.backward()
    words += len(sentence)
    if words < 40:
        continue
    opt.step()
    words = 0

# told at: opt.zero_grad()
