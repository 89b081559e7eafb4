import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.dense = nn.Linear(width, width)


class Model(nn.Module):
    def __init__(self, words=6, width=4):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(2))

    def forward(self, tokens):
        hidden = self.embed(tokens)
        for block in self.blocks:
            hidden = torch.tanh(block.dense(hidden))
        return hidden @ self.embed.weight.t()


torch.manual_seed(0)
model = Model()
old, new = model.embed.weight[1], model.embed.weight[2]
for block, column in [(0, 3), (1, 2)]:
    size = model.blocks[block].dense.weight[:, column].norm()
    model.blocks[block].dense.weight[:, column] -= old * size / old.norm()
    model.blocks[block].dense.weight[:, column] += new * size / new.norm()
print(model(torch.tensor([1, 3])).argmax(-1).tolist())
# told at: model.blocks[block].dense.weight[:, column] -= old * size / old.norm()
# fails: a view of a leaf Variable that requires grad is being used in an in-place operation
