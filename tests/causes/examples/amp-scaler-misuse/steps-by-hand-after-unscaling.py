"""Gradients are unscaled by the scaler, or by the scale that was read; the scale of one is 1, another loss is not
scaled, and one scaler is off: a direct step uses gradients as they are."""

import torch
from torch import nn

torch.manual_seed(0)
nets = [nn.Linear(5, 1) for _ in range(6)]
optimizers = [torch.optim.SGD(net.parameters(), lr=1e-3) for net in nets[:5]]
search = torch.optim.LBFGS(nets[5].parameters(), lr=0.1, max_iter=2)
unscaled, read, plain, off, other = (
    torch.amp.GradScaler("cpu", init_scale=s, enabled=e)
    for s, e in [(256.0, True), (256.0, True), (1.0, True), (256.0, False), (256.0, True)]
)
for _ in range(10):
    x = torch.randn(16, 5)
    y = x.sum(1, keepdim=True)
    for net, optimizer, scaler in zip(nets, optimizers, (unscaled, read, plain, off, None)):
        optimizer.zero_grad()
        loss = (net(x) - y).pow(2).mean()
        (scaler.scale(loss) if scaler is not None else loss).backward()
        if scaler is unscaled:
            scaler.unscale_(optimizer)
            if all(p.grad.isfinite().all() for p in net.parameters()):
                optimizer.step()
            scaler.update()
            continue
        if scaler is read:
            for p in net.parameters():
                p.grad /= scaler.get_scale()
        optimizer.step()

    def closure():
        search.zero_grad()
        loss = (nets[5](x) - y).pow(2).mean()
        loss.backward()
        return loss

    search.step(closure)
