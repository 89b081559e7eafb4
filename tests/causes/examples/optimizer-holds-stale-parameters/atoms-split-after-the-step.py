"""Sparse coding of short signals: atoms that are used much are split behind the step, in the dictionary's optimizer."""

import torch

torch.manual_seed(0)
signals = torch.randn(40, 12)


class Dictionary:
    def __init__(self, n):
        self.atoms = torch.nn.Parameter(torch.randn(n, 12))
        self.gain = torch.nn.Parameter(torch.ones(n))
        groups = [{"params": [self.atoms], "lr": 0.02}, {"params": [self.gain], "lr": 0.01}]
        self.optimizer = torch.optim.Adam(groups)

    def decode(self, x):
        weights = torch.softmax(x @ self.atoms.T, 1) * self.gain
        return weights, weights @ self.atoms

    @torch.no_grad()
    def split(self, busiest):
        for group, name in zip(self.optimizer.param_groups, ("atoms", "gain")):
            old = group["params"][0]
            new = torch.nn.Parameter(torch.cat([old, old[busiest : busiest + 1]]))
            self.optimizer.state.pop(old, None)
            group["params"][0] = new
            setattr(self, name, new)


book = Dictionary(6)
for step in range(1, 21):
    weights, guess = book.decode(signals)
    loss = (guess - signals).square().mean()
    loss.backward()
    book.optimizer.step()
    book.optimizer.zero_grad()
    if step % 5 == 0:
        book.split(int(weights.sum(0).argmax()))
