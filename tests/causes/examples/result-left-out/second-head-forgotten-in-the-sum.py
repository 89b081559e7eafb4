"""Both heads run and are logged; the sum that is differentiated leaves the second one out."""
import torch
from torch import nn

torch.manual_seed(0)


class Grader:
    def __init__(self):
        self.body, self.price, self.risk = nn.Linear(5, 8), nn.Linear(8, 1), nn.Linear(8, 1)
        groups = [{"params": m.parameters(), "lr": r} for m, r in ((self.body, 1e-3), (self.price, 1e-2), (self.risk, 1e-2))]
        self.optimizer = torch.optim.Adam(groups)

    def losses(self, x):
        h = torch.relu(self.body(x))
        total = x.sum(1, keepdim=True)
        return {
            "price": (self.price(h) - total).square().mean(),
            "risk": (self.risk(h) - total.abs()).square().mean(),
        }


grader = Grader()
seen = []
for _ in range(16):
    losses = grader.losses(torch.randn(32, 5))
    seen.append({name: value.item() for name, value in losses.items()})
    grader.optimizer.zero_grad()
    losses["price"].backward()
    grader.optimizer.step()

# told at: "risk": (self.risk(h) - total.abs()).square().mean(),
