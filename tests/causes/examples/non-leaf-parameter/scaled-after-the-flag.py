import torch

torch.manual_seed(0)


class Condensed:
    def __init__(self, classes, size):
        self.images = torch.randn(classes, size, requires_grad=True) * 0.01
        self.optimizer = torch.optim.SGD([self.images], lr=0.1)

    def step(self, target):
        loss = (self.images - target).square().mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


Condensed(3, 4).step(torch.ones(3, 4))

# told at: self.images = torch.randn(classes, size, requires_grad=True) * 0.01
# fails: can't optimize a non-leaf Tensor
