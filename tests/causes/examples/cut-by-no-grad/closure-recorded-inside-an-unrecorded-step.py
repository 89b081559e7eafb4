import torch

torch.manual_seed(0)


class Descent(torch.optim.Optimizer):
    def __init__(self, params, lr=0.1):
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self, closure):
        with torch.enable_grad():
            loss = closure()
        for p in self.param_groups[0]["params"]:
            p.add_(p.grad, alpha=-0.1)
        return loss


net = torch.nn.Linear(3, 1)
optimizer = Descent(net.parameters())
x, y = torch.randn(8, 3), torch.randn(8, 1)


def closure():
    optimizer.zero_grad()
    loss = (net(x) - y).square().mean()
    loss.backward()
    return loss


for _ in range(3):
    print(round(optimizer.step(closure).item(), 4))
