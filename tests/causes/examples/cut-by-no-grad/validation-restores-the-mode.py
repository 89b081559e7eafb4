import torch

torch.manual_seed(0)
model = torch.nn.Linear(3, 1)
x, y = torch.randn(8, 3), torch.randn(8, 1)


def validate():
    with torch.set_grad_enabled(False):
        return (model(x) - y).square().mean().item()


for epoch in range(2):
    model.zero_grad()
    (model(x) - y).square().mean().backward()
    print(round(validate(), 4))
