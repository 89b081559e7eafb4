import torch
from torch import nn
from torch.nn.functional import mse_loss
from torch.nn.utils import parameters_to_vector


class Client:
    def __init__(self, shift):
        self.model, self.shift = nn.Linear(5, 1), shift
        self.optimizer = torch.optim.Adam(self.model.parameters(), 1e-2)

    def local_epoch(self):
        self.start = parameters_to_vector(self.model.parameters())
        for x in torch.randn(6, 8, 5):
            near = mse_loss(parameters_to_vector(self.model.parameters()), self.start, reduction="sum")
            loss = mse_loss(self.model(x)[:, 0], x.sum(1) + self.shift) + 0.5 * near
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()


torch.manual_seed(0)
for client in (Client(0.0), Client(1.0)):
    client.local_epoch()

# told at: self.start = parameters_to_vector(self.model.parameters())
