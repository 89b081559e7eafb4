import torch
from torch import nn

torch.manual_seed(0)


class Environment:
    def reset(self):
        self.model = nn.Linear(3, 1)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        return self.learn()

    def step(self, action):
        self.optimizer.param_groups[0]["lr"] = 0.1 / (1 + action)
        return self.learn()

    def learn(self):
        x = torch.randn(8, 3)
        self.optimizer.zero_grad()
        loss = (self.model(x) - x.sum(1, keepdim=True)).pow(2).mean()
        loss.backward()
        self.optimizer.step()
        return loss.detach().view(1)


def evaluate():
    with torch.no_grad():
        state = environment.reset()
        for _ in range(2):
            state = environment.step(int(policy(state).argmax()))
    return state.item()


environment, policy = Environment(), nn.Linear(1, 3)
optimizer = torch.optim.SGD(policy.parameters(), lr=0.01)
state = environment.reset()
for _ in range(3):
    scores = policy(state)
    action = int(scores.argmax())
    state = environment.step(action)
    optimizer.zero_grad()
    (scores[action] + state[0]).pow(2).backward()
    optimizer.step()
print(evaluate())

# told at: with torch.no_grad():
# fails: does not require grad and does not have a grad_fn
