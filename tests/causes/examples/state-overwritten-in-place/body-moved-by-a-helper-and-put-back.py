import torch
from torch import nn

torch.manual_seed(0)


def move(place, speed, dt):
    place += speed * dt
    return place


class Body:
    def __init__(self, number):
        self.place = torch.randn(number, 2)

    def step(self, push):
        self.place = move(self.place, push, 0.1)
        self.place = move(self.place, push, 0.1)
        self.place = self.place.clamp(-3, 3)

    def put_back(self, which):
        self.place[which] = torch.zeros(len(which), 2)


policy = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 2))
optimizer = torch.optim.Adam(policy.parameters(), lr=0.01)
body = Body(4)
for _ in range(3):
    loss = 0
    for t in range(6):
        body.step(policy(body.place.clone()))
        loss = loss + body.place.norm(dim=1).mean()
        if t % 3 == 2:
            body.put_back(torch.tensor([t % 4]))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    body.place = body.place.detach()

# told at: place += speed * dt
# fails: modified by an inplace operation
