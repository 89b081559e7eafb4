import torch

torch.manual_seed(0)
teacher, student = torch.nn.Linear(4, 3), torch.nn.Linear(4, 3)
x = torch.randn(5, 4)
outputs = {"goal": teacher(x), "scale": teacher(x).std()}
constants = [value.requires_grad_(False) for value in outputs.values()]
loss = ((student(x) - constants[0]) / constants[1]).square().mean()
loss.backward()

# told at: constants = [value.requires_grad_(False) for value in outputs.values()]
# fails: you can only change requires_grad flags of leaf variables
