import torch

torch.manual_seed(0)
model = torch.nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def train(batches):
    for x, y in batches:
        loss = (model(x) - y).pow(2).mean().item()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


train([(torch.randn(4, 3), torch.randn(4, 1)) for _ in range(2)])

# told at: loss = (model(x) - y).pow(2).mean().item()
# fails: 'float' object has no attribute 'backward'
