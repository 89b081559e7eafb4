import torch

torch.manual_seed(0)
weight = torch.randn(3, requires_grad=True)
running = {"scale": torch.ones(3)}


def scaled(x):
    y = (x * weight) * running["scale"]
    running["scale"].mul_(0.9).add_(0.1 * x.std(0))
    return y.pow(2).mean()


loss = scaled(torch.randn(8, 3)) + scaled(torch.randn(8, 3))
loss.backward()

# told at: y = (x * weight) * running["scale"]
# fails: modified by an inplace operation
