import torch

torch.manual_seed(0)
model = torch.nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def train(groups):
    for batches in groups:
        loss = 0.0
        for x in batches:
            loss = loss + model(x).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


train([[torch.randn(4, 3)], []])

# told at: loss = 0.0
# fails: 'float' object has no attribute 'backward'
