import torch

torch.manual_seed(0)
model = torch.nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, y = torch.randn(8, 3), torch.randn(8, 1)


def validate():
    torch.set_grad_enabled(False)
    return (model(x) - y).square().mean().item()


for epoch in range(2):
    loss = (model(x) - y).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    validate()

# told at: torch.set_grad_enabled(False)
# fails: does not require grad and does not have a grad_fn
