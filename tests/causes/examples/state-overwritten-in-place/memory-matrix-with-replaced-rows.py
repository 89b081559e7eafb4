import torch
from torch import nn

torch.manual_seed(0)
write, query = nn.Linear(4, 4), nn.Linear(4, 4)
memory = torch.zeros(3, 4)


def remember(slot, x):
    attention = (query(x) @ memory.T).softmax(-1)
    read = attention @ memory
    memory[slot] = torch.tanh(write(x + read))
    return read


loss = sum(remember(i % 3, torch.randn(4)).sum() for i in range(5))
loss.backward()

# told at: memory[slot] = torch.tanh(write(x + read))
# fails: modified by an inplace operation
