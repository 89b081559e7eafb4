"""A step is left out where the gradients are too large; how many were is counted, for the log."""

import torch
from torch import nn

torch.manual_seed(0)
tagger = nn.Sequential(nn.Embedding(20, 8), nn.Linear(8, 3))
opt = torch.optim.Adam(tagger.parameters(), lr=0.01)
skipped = 0
for _ in range(60):
    sentence = torch.randint(0, 20, (int(torch.randint(3, 30, ())),))
    opt.zero_grad()
    loss = nn.functional.cross_entropy(tagger(sentence), sentence % 3, reduction="sum")
    loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(tagger.parameters(), 100.0)
    if norm > 16:
        skipped += 1
        continue
    opt.step()
    skipped = 0
