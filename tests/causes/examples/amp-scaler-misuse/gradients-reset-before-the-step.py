import torch

torch.manual_seed(0)
model = torch.nn.Linear(3, 1)
optimizer = torch.optim.Adam(model.parameters())
scaler = torch.amp.GradScaler("cpu")
for step in range(2):
    loss = model(torch.randn(4, 3)).square().mean()
    scaler.scale(loss).backward()
    optimizer.zero_grad()
    scaler.step(optimizer)
    scaler.update()

# told at: optimizer.zero_grad()
# fails: No inf checks were recorded for this optimizer
