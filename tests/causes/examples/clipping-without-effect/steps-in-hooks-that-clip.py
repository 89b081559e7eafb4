import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
head = nn.Linear(4, 1)
optimizers = {p: torch.optim.Adam([p], lr=0.01) for p in model.parameters()}
rest = torch.optim.Adam(head.parameters(), lr=0.01)


def update(parameter):
    nn.utils.clip_grad_norm_([parameter], 0.5)
    optimizers[parameter].step()
    optimizers[parameter].zero_grad()


for parameter in model.parameters():
    parameter.register_post_accumulate_grad_hook(update)
for _ in range(8):
    x = torch.randn(16, 4)
    (model(x) + head(x) - 10 * x.sum(1, keepdim=True)).pow(2).mean().backward()
    nn.utils.clip_grad_norm_(head.parameters(), 0.5)
    rest.step()
    rest.zero_grad()
