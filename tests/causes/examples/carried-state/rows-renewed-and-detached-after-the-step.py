import torch
from torch import nn

LAYERED = True


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.head = nn.Embedding(11, 6), nn.Linear(6, 11)
        self.core = nn.LSTM(6, 6) if LAYERED else nn.GRU(6, 6)

    def forward(self, words, state):
        seen, state = self.core(self.table(words), state)
        return self.head(seen), state


def blank(width):
    rows = torch.zeros(1, width, 6)
    return (rows, rows.clone()) if LAYERED else rows


torch.manual_seed(0)
tagger = Tagger()
optimizer = torch.optim.SGD(tagger.parameters(), lr=0.1)
state = blank(4)
for number in range(3):
    for row in range(4):
        if number == 0 and row < 2:
            if LAYERED:
                state[0][0, row] = 0.5
                state[1][0, row] = 0.5
            else:
                state[0, row] = 0.5
    words = torch.randint(11, (5, 4))
    optimizer.zero_grad()
    scores, state = tagger(words, state)
    loss = nn.functional.cross_entropy(scores.view(-1, 11), words.view(-1))
    loss.backward()
    optimizer.step()
    state = tuple(t.detach() for t in state)
