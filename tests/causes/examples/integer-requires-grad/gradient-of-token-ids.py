import torch

torch.manual_seed(0)
embed, score = torch.nn.Embedding(20, 4), torch.nn.Linear(4, 1)
tokens = torch.randint(20, (1, 6))


def saliency(ids):
    ids.requires_grad = True
    score(embed(ids).mean(1)).sum().backward()
    return ids.grad.abs()


print(saliency(tokens))

# told at: ids.requires_grad = True
# fails: of floating point and complex dtype can require gradients
