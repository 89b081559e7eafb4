import torch

torch.manual_seed(0)
scale = torch.rand(4, requires_grad=True)
table = torch.randn(3, 4) * scale
for row in table:
    row /= row.norm()
table.sum().backward()

# told at: row /= row.norm()
# fails: function that returns multiple views
