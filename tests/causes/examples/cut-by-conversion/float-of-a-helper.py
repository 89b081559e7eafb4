import torch

torch.manual_seed(0)
model = torch.nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def penalty(x):
    error = model(x).pow(2).mean()
    return error.item()


def train(batches):
    loss = 0.0
    for x in batches:
        loss = loss + penalty(x)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


train([torch.randn(4, 3), torch.randn(4, 3)])

# told at: return error.item()
# fails: 'float' object has no attribute 'backward'
