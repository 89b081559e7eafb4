import torch
from torch import nn


class Tagger(nn.Module):
    def __init__(self, words=6, pad=0):
        super().__init__()
        self.embed = nn.Embedding(words, 4)
        self.embed.weight[pad] = 0.0
        self.out = nn.Linear(4, 2)

    def forward(self, tokens):
        return self.out(self.embed(tokens).mean(1))


torch.manual_seed(0)
Tagger()(torch.tensor([[1, 2, 0]])).sum().backward()

# told at: self.embed.weight[pad] = 0.0
# fails: a view of a leaf Variable that requires grad is being used in an in-place operation
