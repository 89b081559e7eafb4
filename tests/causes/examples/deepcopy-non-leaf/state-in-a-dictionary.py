from copy import deepcopy

import torch

torch.manual_seed(0)
cell = torch.nn.GRUCell(3, 5)
best = {"loss": float("inf")}
state = {"hidden": torch.zeros(1, 5)}
for step in range(3):
    state["hidden"] = cell(torch.randn(1, 3), state["hidden"].detach())
    loss = state["hidden"].square().mean()
    loss.backward()
    if loss.item() < best["loss"]:
        best = {"loss": loss.item(), "state": deepcopy(state)}

# told at: state["hidden"] = cell(torch.randn(1, 3), state["hidden"].detach())
# fails: support the deepcopy protocol
