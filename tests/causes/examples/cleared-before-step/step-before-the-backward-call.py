import torch
from torch import nn

torch.manual_seed(0)
model, critic, actor = nn.Linear(4, 4), nn.Linear(4, 1), nn.Linear(4, 4)
model_optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
critic_optimizer = torch.optim.SGD(critic.parameters(), lr=0.1)
actor_optimizer = torch.optim.SGD(actor.parameters(), lr=0.1)

for _ in range(12):
    x = torch.randn(16, 4)
    model_loss = (model(x) - x.roll(1, -1)).pow(2).mean()
    model_optimizer.zero_grad()
    model_loss.backward()
    model_optimizer.step()
    # The actor's loss goes through the model, which is cleared before its own.
    actor_loss = -model(torch.tanh(actor(x))).mean()
    actor_optimizer.zero_grad()
    actor_optimizer.step()
    actor_loss.backward()
    critic_loss = (critic(x) - x.sum(1, keepdim=True)).pow(2).mean()
    critic_optimizer.zero_grad()
    critic_loss.backward()
    critic_optimizer.step()
print("trained")

# told at: actor_optimizer.step()
