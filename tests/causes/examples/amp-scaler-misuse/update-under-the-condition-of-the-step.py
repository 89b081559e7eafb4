import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
taken = 0
for step in range(4):
    loss = (model(torch.randn(8, 3)) * (30 if step == 1 else 1)).square().mean()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    if norm < 50:
        scaler.step(optimizer)
        scaler.update()
        taken += 1
    optimizer.zero_grad()
    print(step, taken)

# told at: scaler.unscale_(optimizer)
# fails: unscale_() has already been called on this optimizer since the last update()
