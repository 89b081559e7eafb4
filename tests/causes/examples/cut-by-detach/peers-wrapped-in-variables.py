import torch
from torch import nn
from torch.autograd import Variable

torch.manual_seed(0)
models = [nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, 4)) for _ in range(2)]
optimizers = [torch.optim.SGD(model.parameters(), lr=0.1) for model in models]
for step in range(12):
    x = Variable(torch.randn(8, 3), requires_grad=True)
    outputs = [model(x.detach()) for model in models]
    for i, optimizer in enumerate(optimizers):
        peer = torch.softmax(Variable(outputs[1 - i]), 1)
        loss = nn.functional.kl_div(torch.log_softmax(outputs[i], 1), peer, reduction="batchmean")
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
