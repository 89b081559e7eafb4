import torch

torch.manual_seed(0)


class Descent(torch.optim.Optimizer):
    def __init__(self, params, lr=0.1):
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self, closure=None):
        loss = closure() if closure is not None else None
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    p.add_(p.grad, alpha=-group["lr"])
        return loss


net = torch.nn.Linear(3, 1)
optimizer = Descent(net.parameters())
x, y = torch.randn(8, 3), torch.randn(8, 1)


def closure():
    optimizer.zero_grad()
    loss = (net(x) - y).pow(2).mean()
    loss.backward()
    return loss


for _ in range(3):
    optimizer.step(closure)

# told at: loss = closure() if closure is not None else None
# fails: does not require grad and does not have a grad_fn
