import torch

torch.manual_seed(0)
query, key = torch.randn(4, 8, requires_grad=True), torch.randn(4, 8, requires_grad=True)
scores = query @ key.T / 8**0.5
scores.masked_fill_(torch.ones(4, 4).triu(1).bool(), float("-inf"))
weights = scores.softmax(-1)
(weights @ key).sum().backward()
