import torch
from torch import nn

torch.manual_seed(0)


class Equilibrium(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.head = nn.Linear(4, 4), nn.Linear(4, 1)

    def solve(self, step, state):
        with torch.no_grad():
            for _ in range(20):
                state = step(state)
        return step(state) if self.training else state

    def forward(self, place):
        state = self.solve(lambda z: torch.tanh(0.3 * self.layer(z) + place), torch.zeros_like(place))
        energy = self.head(state).sum()
        return energy, torch.autograd.grad(energy, place, create_graph=True)[0]


model = Equilibrium()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for _ in range(3):
    place = torch.randn(5, 4, requires_grad=True)
    energy, slope = model(place)
    loss = (slope + place.detach()).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
model.eval()
energy, slope = model(torch.randn(5, 4, requires_grad=True))

# told at: with torch.no_grad():
# fails: appears to not have been used in the graph
