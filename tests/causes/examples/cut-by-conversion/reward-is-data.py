import torch

torch.manual_seed(0)
policy = torch.nn.Linear(4, 3)
log_probs, rewards = [], []
for step in range(5):
    dist = torch.distributions.Categorical(logits=policy(torch.randn(4)))
    action = dist.sample()
    log_probs.append(dist.log_prob(action))
    rewards.append(float(action.item() == 1))
returns = torch.tensor(rewards).flip(0).cumsum(0).flip(0)
loss = -(torch.stack(log_probs) * (returns - returns.mean().item())).sum()
loss.backward()
print(policy.weight.grad is not None)
