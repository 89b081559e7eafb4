"""The classifier's loss is computed first, and its name is bound to the other loss before backward."""
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
encoder, decoder, classifier = nn.Linear(6, 4), nn.Linear(4, 6), nn.Linear(4, 3)
optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters(), *classifier.parameters()], lr=1e-2)
for _ in range(16):
    x, labels = torch.randn(32, 6), torch.randint(0, 3, (32,))
    code = torch.tanh(encoder(x))
    loss = F.cross_entropy(classifier(code), labels)
    loss = F.mse_loss(decoder(code), x)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: loss = F.cross_entropy(classifier(code), labels)
