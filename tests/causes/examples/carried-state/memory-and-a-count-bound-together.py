import torch

torch.manual_seed(0)
net, head = torch.nn.Linear(4, 4), torch.nn.Linear(4, 1)
opt = torch.optim.SGD([*net.parameters(), *head.parameters()], lr=0.1)
memory, count = torch.zeros(2, 4), 0
for step in range(4):
    out = net(torch.randn(2, 4)) + memory
    loss = head(out).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    memory, count = torch.tanh(out), count + 1

# told at: memory, count = torch.tanh(out), count + 1
# fails: Trying to backward through the graph a second time
