import torch


class Polynomial:
    def __init__(self, *coefficients):
        self.c = torch.tensor(coefficients, requires_grad=True)

    def __call__(self, x):
        return sum(c * x**n for n, c in enumerate(self.c))


p = Polynomial(1, 0, 2)
(p(torch.tensor(0.5)) - 1).square().backward()
print(p.c.grad)

# told at: self.c = torch.tensor(coefficients, requires_grad=True)
# fails: of floating point and complex dtype can require gradients
