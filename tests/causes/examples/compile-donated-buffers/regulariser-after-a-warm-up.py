import torch

torch.manual_seed(0)


class Trainer:
    def __init__(self):
        self.net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.GELU(), torch.nn.Linear(4, 2))
        self.fast = torch.compile(self.net, backend="aot_eager")

    def warm_up(self, x):
        self.fast(x).square().mean().backward()

    def step(self, x):
        fit, size = self.fast(x).unbind(1)
        first = torch.autograd.grad(fit.mean(), self.net[0].weight, retain_graph=True)[0]
        (fit.mean() + first.norm().item() * size.abs().mean()).backward()


trainer = Trainer()
trainer.warm_up(torch.randn(5, 3))
trainer.step(torch.randn(5, 3))

# told at: first = torch.autograd.grad(fit.mean(), self.net[0].weight, retain_graph=True)[0]
# fails: was compiled with non-empty donated buffers
