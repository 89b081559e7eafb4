import torch

torch.manual_seed(0)
weights = torch.zeros(5, requires_grad=True)
x = torch.randn(60, 5)
y = x @ torch.tensor([1.0, 2.0, -1.0, 0.5, 3.0])
spread = torch.full((60,), 0.05)
optimizer = torch.optim.SGD([weights], lr=0.06)
for _ in range(100):
    error = ((x @ weights - y) ** 2 / spread).mean()
    optimizer.zero_grad()
    error.backward()
    optimizer.step()

# told at: error.backward()
