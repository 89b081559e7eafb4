import torch
from torch import nn

torch.manual_seed(0)
valve, pressure, kept = nn.Linear(3, 1), nn.Linear(4, 1), nn.Linear(4, 1)
by_valve = torch.optim.SGD(valve.parameters(), lr=1e-2)
by_pressure = torch.optim.SGD(pressure.parameters(), lr=1e-2)
for minute in range(15):
    state, later, turn, flow = torch.randn(8, 3), torch.randn(8, 3), torch.rand(8, 1), torch.rand(8, 1)
    goal = flow + 0.9 * kept(torch.cat([later, turn], 1))
    forecast = pressure(torch.cat([state, turn], 1)).detach()
    error = (forecast - goal).pow(2).mean()
    by_pressure.zero_grad()
    error.backward()
    by_pressure.step()
    lost = -pressure(torch.cat([state, valve(state)], 1)).mean()
    by_valve.zero_grad()
    lost.backward()
    by_valve.step()

# told at: forecast = pressure(torch.cat([state, turn], 1)).detach()
