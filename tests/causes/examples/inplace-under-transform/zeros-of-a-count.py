import torch
from torch.func import vmap


def residuals(scales, views):
    error = torch.zeros(views - 1)
    for i in range(views - 1):
        error[i] = scales[i + 1] - scales[i]
    return error


scales = torch.randn(4, 3, requires_grad=True)
optimizer = torch.optim.SGD([scales], lr=0.1)
loss = vmap(lambda s: residuals(s, 3))(scales).square().mean()
loss.backward()
optimizer.step()

# told at: error = torch.zeros(views - 1)
# fails: vmap: inplace arithmetic
