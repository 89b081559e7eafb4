import torch

torch.manual_seed(0)
heads = torch.nn.ModuleDict({"a": torch.nn.Linear(4, 4), "b": torch.nn.Linear(4, 4)})
loss = heads["a"](torch.randn(3, 4)).pow(2).mean()
grads = torch.autograd.grad(loss, list(heads.parameters()))

# told at: grads = torch.autograd.grad(loss, list(heads.parameters()))
# fails: appears to not have been used in the graph
