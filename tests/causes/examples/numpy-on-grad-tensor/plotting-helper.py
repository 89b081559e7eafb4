import torch

torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(1, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))


def curve(function, low, high):
    x = torch.linspace(low, high, 20).unsqueeze(1)
    y = function(x)
    return x.numpy().ravel(), y.numpy().ravel()


xs, ys = curve(net, -1.0, 1.0)
print(xs.shape, ys.shape)

# told at: return x.numpy().ravel(), y.numpy().ravel()
# fails: Can't call numpy() on Tensor that requires grad
