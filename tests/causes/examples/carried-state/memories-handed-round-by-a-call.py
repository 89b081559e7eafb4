import torch
from torch import nn

torch.manual_seed(0)


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(12, 8)
        self.mix = nn.Linear(8, 8)
        self.head = nn.Linear(8, 12)

    def forward(self, tokens, past=None):
        seen = self.embed(tokens)
        if past is None:
            mixed = torch.tanh(self.mix(seen))
        else:
            mixed = torch.tanh(self.mix(torch.cat([past[0], seen], 1)))[:, -seen.size(1) :]
        return self.head(mixed), self.remember(past, [seen])

    def remember(self, past, layers):
        if past is None:
            return [layer[:, -3:] * 0.9 for layer in layers]
        return [torch.cat([p, layer], 1)[:, -3:] for p, layer in zip(past, layers)]


def fit(reader, optimizer, text):
    past = None
    for at in range(0, text.size(1) - 4, 4):
        optimizer.zero_grad()
        scores, past = reader(text[:, at : at + 4], past)
        loss = nn.functional.cross_entropy(scores.flatten(0, 1), text[:, at + 1 : at + 5].flatten())
        loss.backward()
        optimizer.step()


reader = Reader()
fit(reader, torch.optim.Adam(reader.parameters()), torch.randint(12, (2, 17)))

# told at: scores, past = reader(text[:, at : at + 4], past)
# fails: backward through the graph a second time
