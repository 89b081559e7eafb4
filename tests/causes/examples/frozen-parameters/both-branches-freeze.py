import torch
from torch import nn

torch.manual_seed(0)


class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Linear(6, 5)
        self.backbone = nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 2))

    def forward(self, x):
        return self.backbone(self.encoder(x).relu())


model = Detector()
for name, p in model.named_parameters():
    if name.split(".")[0] in ["encoder"]:
        p.requires_grad = False
    else:
        p.requires_grad = False
params = model.parameters()
optimizer = torch.optim.AdamW(params, lr=0.01)
for step in range(3):
    loss = nn.functional.cross_entropy(model(torch.randn(5, 6)), torch.randint(2, (5,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
# told at: p.requires_grad = False
# fails: does not require grad and does not have a grad_fn
