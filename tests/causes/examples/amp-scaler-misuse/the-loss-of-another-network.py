import torch

torch.manual_seed(0)
student, teacher = torch.nn.Linear(3, 1), torch.nn.Linear(3, 1)
optimizer = torch.optim.Adam(student.parameters())
scaler = torch.amp.GradScaler("cpu")
loss = teacher(torch.randn(4, 3)).square().mean()
scaler.scale(loss).backward()
optimizer.zero_grad()
scaler.step(optimizer)
scaler.update()

# told at: scaler.step(optimizer)
# fails: No inf checks were recorded for this optimizer
