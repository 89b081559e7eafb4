import torch

torch.manual_seed(0)
embed, score = torch.nn.Embedding(20, 4), torch.nn.Linear(4, 1)
vectors = embed(torch.randint(20, (1, 6)))
vectors.retain_grad()
score(vectors.mean(1)).sum().backward()
print(vectors.grad.norm(dim=-1).shape)
