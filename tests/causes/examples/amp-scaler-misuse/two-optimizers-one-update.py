import torch

torch.manual_seed(0)
a, b = torch.nn.Linear(3, 1), torch.nn.Linear(3, 1)
opt_a, opt_b = (torch.optim.SGD(m.parameters(), lr=0.1) for m in (a, b))
scaler = torch.amp.GradScaler("cpu")
x = torch.randn(4, 3)
scaler.scale(a(x).square().mean()).backward()
scaler.scale(b(x).square().mean()).backward()
scaler.step(opt_a)
scaler.step(opt_b)
scaler.update()
print(scaler.get_scale() > 0)
