import torch

torch.manual_seed(0)
images = [torch.randn(4, 3, requires_grad=True) for _ in range(2)]
optimizer = torch.optim.Adam(images, lr=0.01)
for p in images:
    p.grad = torch.zeros_like(p)


def differentiate(steps):
    weight, found = torch.randn(3, 1, requires_grad=True), []
    for image in steps:
        loss = (image @ weight).pow(2).mean()
        found.append((image, *torch.autograd.grad(loss, [image])))
    return [p for p, _ in found], [g for _, g in found]


def gather(infos):
    for many, gradients in infos:
        for one, gradient in zip(many, gradients):
            one.grad.add_(gradient)


for step in range(4):
    optimizer.zero_grad()
    gather([differentiate(images * 3) for _ in range(3)])
    optimizer.step()

# told at: one.grad.add_(gradient)
# fails: 'NoneType' object has no attribute 'add_'
