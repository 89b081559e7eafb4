import torch
from torch import nn

torch.manual_seed(0)
actor, critic = nn.Linear(3, 2), nn.Linear(3, 1)
obs = torch.randn(5, 3)
with torch.inference_mode():
    advantage = torch.randn(5) - critic(obs).squeeze(-1)
dist = torch.distributions.Categorical(logits=actor(obs))
loss = -(dist.log_prob(torch.ones(5)) * advantage).mean()
loss.backward()

# told at: with torch.inference_mode():
# fails: Inference tensors cannot be saved for backward
