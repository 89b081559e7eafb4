import warnings

import torch
from torch import nn

warnings.simplefilter("ignore")  # PyTorch says that a number is taken, as is meant
torch.manual_seed(0)
ear, pitch, voice = nn.Linear(5, 12), nn.Linear(12, 1), nn.Linear(13, 4)
optimizer = torch.optim.Adam([*ear.parameters(), *pitch.parameters(), *voice.parameters()], lr=0.01)
for _ in range(8):
    loss = torch.tensor(0.0)
    for _ in range(9):
        sound = torch.randn(1, 5)
        heard = torch.tanh(ear(sound))
        tone = pitch(heard).squeeze()
        told = torch.full((1, 1), float(tone.clamp(-2, 2)))  # the voice is told the number, within its range
        sung = voice(torch.cat([heard, told], 1))
        loss = loss + (sung - sound[:, :4]).pow(2).mean() + (tone - sound.sum()).pow(2)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
