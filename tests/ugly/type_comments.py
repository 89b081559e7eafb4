import torch
from typing import List

hidden = torch.zeros(3)  # type: torch.Tensor
items = []  # type: List[torch.Tensor]
def step(x,  # type: torch.Tensor
         h,  # type: torch.Tensor
         ):
    # type: (...) -> torch.Tensor
    h = x + h  # type: ignore[assignment]
    return h  # noqa: F841
for t in items:  # type: torch.Tensor
    hidden = step(t, hidden)  # pragma: no cover
total: "torch.Tensor" = hidden.sum()
unbound: int
