import argparse

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--accumulate", type=int, default=1)
args = parser.parse_args([])
torch.manual_seed(0)
meter = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.Adam(meter.parameters(), lr=1e-2)
for epoch in range(3):
    for i, x in enumerate(torch.randn(6, 8, 4)):
        loss = (meter(x) - x.sum(1, keepdim=True)).pow(2).mean() / args.accumulate
        loss.backward()
        if i % args.accumulate:
            optimizer.step()
            optimizer.zero_grad()

# told at: if i % args.accumulate:
