import torch
from torch import nn


class Captioner(nn.Module):
    """A frozen table of words whose vectors ask for gradients, and pictures projected into the places left for them."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(20, 6).requires_grad_(False)
        self.words.register_forward_hook(lambda module, given, result: result.requires_grad_(True))
        self.project = nn.Linear(4, 6)
        self.head = nn.Linear(6, 20)

    def forward(self, tokens, picture):
        vectors = self.words(tokens)
        seen = self.project(picture)
        vectors[tokens == 0] = seen.flatten(0, 1)
        return self.head(vectors)


torch.manual_seed(0)
model = Captioner()
optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=0.01)
for step in range(3):
    tokens = torch.randint(1, 20, (2, 7))
    tokens[:, 1:4] = 0
    optimizer.zero_grad()
    scores = model(tokens, torch.randn(2, 3, 4))
    nn.functional.cross_entropy(scores.flatten(0, 1), tokens.flatten()).backward()
    optimizer.step()

# told at: vectors[tokens == 0] = seen.flatten(0, 1)
# fails: a leaf Variable that requires grad is being used in an in-place operation
