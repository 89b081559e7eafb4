import torch
from torch import nn
from torch.nn.functional import cross_entropy, linear

torch.manual_seed(0)
packed = nn.Parameter(torch.randn(3 * 8, 8) * 0.1)
query, key, value = packed[:8], packed.narrow(0, 8, 8), packed.view(3, 8, 8)[2]
words = nn.Embedding(11, 8)
head = words.weight.t()
shared = words.weight.as_strided((11, 8), (8, 1))
optimizer = torch.optim.Adam([packed, *words.parameters()], lr=0.01)
for step in range(6):
    tokens = torch.randint(11, (4, 5))
    hidden = words(tokens)
    mixed = (linear(hidden, query) @ linear(hidden, key).mT).softmax(-1) @ linear(hidden, value)
    loss = cross_entropy((mixed @ head + mixed @ shared.mT).flatten(0, 1), tokens.flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
