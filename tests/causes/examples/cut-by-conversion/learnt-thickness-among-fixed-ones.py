import torch

torch.manual_seed(0)


class Stack:
    """Light through layers: some thicknesses are to be found, others are given."""

    def __init__(self, indices, thickness):
        self.indices = indices
        self.thickness = torch.tensor(thickness, dtype=torch.float64)

    def transmitted(self, wavelength):
        phase = 2 * torch.pi * self.indices * self.thickness / wavelength
        return torch.cos(phase).prod() ** 2


thickness = torch.tensor(120.0, dtype=torch.float64, requires_grad=True)
indices = torch.tensor([1.4, 2.1, 1.7], dtype=torch.float64, requires_grad=True)
optimizer = torch.optim.Adam([{"params": [indices], "lr": 0.01}, {"params": [thickness], "lr": 1.0}])
for _ in range(8):
    optimizer.zero_grad()
    loss = 1 - Stack(indices, [thickness, 80.0, 200]).transmitted(550.0)
    loss.backward()
    optimizer.step()

# told at: self.thickness = torch.tensor(thickness, dtype=torch.float64)
