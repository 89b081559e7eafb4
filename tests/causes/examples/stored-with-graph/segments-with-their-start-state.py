from dataclasses import dataclass

import torch
from torch import nn

torch.manual_seed(0)


@dataclass
class Segment:
    obs: torch.Tensor
    start: torch.Tensor


cell, head = nn.GRUCell(3, 8), nn.Linear(8, 1)
optimizer = torch.optim.Adam([*cell.parameters(), *head.parameters()])
state, segments = torch.zeros(1, 8), []
for _ in range(4):
    obs = torch.randn(1, 3)
    segments.append(Segment(obs, start=state))
    state = cell(obs, state)
for segment in reversed(segments):
    loss = head(cell(segment.obs, segment.start)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: segments.append(Segment(obs, start=state))
# fails: backward through the graph a second time
