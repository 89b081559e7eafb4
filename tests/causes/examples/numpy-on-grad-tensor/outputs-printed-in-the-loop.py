import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(3, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(4, 3)
for step in range(3):
    out = model(x)
    print("outputs", out[0].numpy().round(2))
    loss = out.square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: print("outputs", out[0].numpy().round(2))
# fails: Can't call numpy() on Tensor that requires grad
