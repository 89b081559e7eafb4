import torch
import torch.nn.functional as F
from torch import nn


class Trainer:
    def __init__(self):
        self.encoder, self.decoder, self.probe = nn.Linear(6, 4), nn.Linear(4, 6), nn.Linear(4, 3)
        self.whole = nn.ModuleList([self.encoder, self.decoder, self.probe])
        self.optimizer = torch.optim.Adam(self.whole.parameters(), lr=1e-2)
        self.seen = 0.0

    def log(self):
        self.seen += self.loss.item()

    def step(self, x, labels):
        code = torch.tanh(self.encoder(x))
        self.loss = F.cross_entropy(self.probe(code), labels)
        self.log()
        self.loss = F.mse_loss(self.decoder(code), x)
        self.optimizer.zero_grad()
        self.loss.backward()
        self.optimizer.step()


torch.manual_seed(0)
trainer = Trainer()
for _ in range(16):
    trainer.step(torch.randn(32, 6), torch.randint(0, 3, (32,)))
