import torch

torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
model = torch.compile(net, backend="aot_eager")
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(2):
    loss = model(torch.randn(2, 3)).square().mean()
    optimizer.zero_grad()
    loss.backward(retain_graph=step == 1)
    optimizer.step()

# told at: loss.backward(retain_graph=step == 1)
# fails: was compiled with non-empty donated buffers
