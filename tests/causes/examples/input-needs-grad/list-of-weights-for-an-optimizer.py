import numpy as np
import torch

torch.manual_seed(0)
first = torch.randn(3, 4) * 0.1
second = torch.from_numpy(np.ones(4, dtype=np.float32))
weights = [first, second]
optimizer = torch.optim.SGD(weights, lr=0.1)
x = torch.randn(50, 3)
for step in range(10):
    loss = (torch.relu(x @ first) @ second - x.sum(1)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(step)

# told at: first = torch.randn(3, 4) * 0.1
# fails: element 0 of tensors does not require grad and does not have a grad_fn
