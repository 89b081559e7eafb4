import copy

import torch
from torch import nn
from torch.nn.functional import mse_loss

torch.manual_seed(0)
server = nn.Linear(3, 1)
clients = [copy.deepcopy(server) for _ in range(2)]
optimizers = [torch.optim.SGD(c.parameters(), lr=0.1) for c in clients]
for _ in range(3):
    for client, optimizer in zip(clients, optimizers):
        client.load_state_dict(server.state_dict())
        for x in torch.randn(2, 8, 3):
            optimizer.zero_grad()
            client(x).pow(2).mean().backward()
            optimizer.step()
    mean = [torch.stack(p).mean(0) for p in zip(*(c.state_dict().values() for c in clients))]
    server.load_state_dict(dict(zip(server.state_dict(), mean)))
