import torch
from torch import nn


def stage(epochs, release_at=None, state=None):
    body, head = nn.Linear(4, 6), nn.Linear(6, 2)
    body.requires_grad_(False)
    optimizer = torch.optim.AdamW([{"params": body.parameters()}, {"params": head.parameters()}], lr=1e-2)
    parts = (body, head, optimizer)
    for part, kept in zip(parts, state or ()):
        part.load_state_dict(kept)
    for epoch in range(epochs):
        if epoch == release_at:
            for p in body.parameters():
                p.requires_grad = True
        for x in torch.randn(6, 8, 4):
            loss = nn.functional.cross_entropy(head(body(x).relu()), (x.sum(1) > 0).long())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return [part.state_dict() for part in parts]


torch.manual_seed(0)
state = stage(3, release_at=1)
state = stage(3, state=state)  # the head alone
stage(2, release_at=4, state=state)  # and so it would begin again, in a longer run
