import torch
from torch import nn


class Body:
    def __init__(self, number):
        self.spin = torch.zeros(3, number)

    def advance(self, torque):
        self.spin = (self.spin + 0.1 * torque).clamp(-10, 10)

    def restart(self, who):
        with torch.no_grad():
            self.spin[:, who] = 0.0


torch.manual_seed(0)
body, actor = Body(4), nn.Linear(3, 3)
optimizer = torch.optim.SGD(actor.parameters(), lr=0.1)
for update in range(3):
    loss = 0.0
    for t in range(4):
        body.advance(actor(body.spin.T + 1).T)
        loss = loss + body.spin.norm(dim=0).mean()
        if t == 2:
            body.restart([1])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    body.spin = body.spin.detach().clone()

# told at: self.spin[:, who] = 0.0
# fails: modified by an inplace operation
