import numpy as np
import torch

torch.manual_seed(0)


class Client:
    def __init__(self, seed):
        self.model = torch.nn.Linear(3, 1)
        self.x, self.y = torch.randn(5, 3), torch.randn(5, 1)

    def test(self):
        self.model.eval()
        return (self.model(self.x) - self.y).square().mean(), len(self.x)


results = [Client(seed).test() for seed in range(3)]
average = np.sum([loss * n for loss, n in results]) / sum(n for _, n in results)
print(average)

# told at: average = np.sum([loss * n for loss, n in results]) / sum(n for _, n in results)
# fails: Can't call numpy() on Tensor that requires grad
