import torch
from torch import nn

torch.manual_seed(0)


class Gauge(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.read = nn.Embedding(20, 8), nn.Linear(8, 3)

    def forward(self, rows, vectors=None):
        return self.read(self.table(rows) if vectors is None else vectors).mean(1)


def roughness(evaluate, vectors):
    noisy = vectors.detach().requires_grad_()
    change = (evaluate(noisy) - evaluate(vectors.detach())).square().mean() + evaluate(noisy).square().mean()
    (slope,) = torch.autograd.grad(change, noisy)
    return slope.square().mean()


gauge = Gauge()
rows = torch.randint(20, (4, 5))


def evaluate(vectors):
    return gauge(rows, vectors=None)


print(roughness(evaluate, gauge.table(rows)))

# told at: return gauge(rows, vectors=None)
# fails: appears to not have been used in the graph
