"""Programs that use every corner of autograd: each must do under observation exactly what it does without."""

from __future__ import annotations

STATE = """
import hashlib
def state(*tensors):
    h = hashlib.sha256()
    for t in tensors:
        h.update(t.detach().cpu().numpy().tobytes())
    h.update(torch.get_rng_state().numpy().tobytes())
    print(h.hexdigest())
"""

TWICE = "y = (w * 2).tanh().sum()\ny.backward()\ny.backward()\n"
W = "w = torch.randn(3, requires_grad=True)\n"

DTENSOR = """
import tempfile
import torch.distributed as dist
from torch.distributed.tensor import Shard, distribute_tensor, init_device_mesh
dist.init_process_group("gloo", init_method="file://" + tempfile.mktemp(), rank=0, world_size=1)
import atexit
atexit.register(dist.destroy_process_group)
w = distribute_tensor(torch.randn(4, 3), init_device_mesh("cpu", (1,)), [Shard(0)]).requires_grad_()
"""
# Memory that the program takes back while the tensor stays: by hand, as an offloading library does it, and by FSDP.
GIVEN_BACK = """
net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
scale = torch.nn.Parameter(torch.ones(4))
kept = {}
for step in range(16):
    for p in net.parameters():
        if p in kept:
            p.untyped_storage().resize_(p.numel() * 4)
            p.data.copy_(kept[p])
    loss = (net(torch.randn(3, 4)) * scale).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(loss.item())
    for p in net.parameters():
        kept[p] = p.detach().clone()
        p.untyped_storage().resize_(0)
"""
FSDP2 = """
import tempfile
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import init_device_mesh
dist.init_process_group("gloo", init_method="file://" + tempfile.mktemp(), rank=0, world_size=1)
mesh = init_device_mesh("cpu", (1,))
inner = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh(), torch.nn.Linear(4, 4))
net = torch.nn.Sequential(inner, torch.nn.Linear(4, 1))
fully_shard(inner, mesh=mesh, reshard_after_forward=True)
fully_shard(net, mesh=mesh)
opt = torch.optim.AdamW(net.parameters())
for _ in range(8):
    loss = net(torch.randn(3, 4)).square().mean()
    opt.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    opt.step()
    print(loss.item())
dist.destroy_process_group()
"""
# aot_eager goes through the whole of torch.compile but the compiler of machine code.
COMPILED = """
net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
f = torch.compile(net, backend="aot_eager")
for _ in range(3):
    loss = f(torch.randn(3, 4)).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(loss.item())
"""
# All of a step is compiled, and what becomes of it is printed: the code of each graph, and where the function is split.
COMPILED_STEP = """
import logging
import torch._dynamo
torch._logging.set_logs(dynamo=logging.ERROR)  # PyTorch's own warnings carry the time of day
net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
def backend(graph, _):
    print(graph.code)
    return graph.forward
def step(x):
    opt.zero_grad()
    net.zero_grad()
    with torch.no_grad():
        target = net(x) + 1
    loss = (net(x) - target).square().mean()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    opt.step()
    return loss
step(torch.randn(3, 4))
compiled = torch.compile(step, backend=backend)
for size in 3, 3, 5:
    print(compiled(torch.randn(size, 4)).item())
print(torch._dynamo.utils.counters["graph_break"], torch._dynamo.utils.counters["stats"])
"""

# What dynamo compiles of a module whose class is the user's own is the frame of its forward, below Module's own frames.
COMPILED_MODULE = """
import torch
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)
    def forward(self, x):
        return self.layer(x).tanh()
net = torch.compile(Net(), backend="aot_eager")
net(torch.ones(3, 4)).sum().backward()
print(torch._dynamo.utils.counters["frames"])
net = torch.nn.Linear(4, 1)
net.compile(backend="aot_eager")  # compiles nothing, as a module of PyTorch's own is left out
net(torch.ones(3, 4)).sum().backward()
print(torch._dynamo.utils.counters["frames"])
"""

HEALTHY = {
    "given-back": GIVEN_BACK,
    "fsdp2": FSDP2,
    "compiled": COMPILED,
    "compiled-step": COMPILED_STEP,
    "compiled-module": COMPILED_MODULE,
    "dtensor": DTENSOR + "for _ in range(3):\n    (w * 2).tanh().sum().backward()\nprint(w.grad.full_tensor())\n",
    "training": STATE
    + """
net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Dropout(), torch.nn.Linear(8, 1))
opt = torch.optim.AdamW(net.parameters())
for _ in range(5):
    opt.zero_grad()
    net(torch.randn(6, 4)).square().mean().backward()
    opt.step()
state(*net.parameters())
""",
    "threads": W
    + """
import threading
def work(i):
    for _ in range(20):
        with torch.no_grad():
            w * 2
        (w * i).sum().backward()
ts = [threading.Thread(target=work, args=(i,)) for i in range(4)]
[t.start() for t in ts]; [t.join() for t in ts]
print(w.grad)
""",
    "hooks": W
    + """
net = torch.nn.Linear(3, 3)
net.register_forward_hook(lambda m, i, o: o * 2)
net.register_full_backward_hook(lambda m, gi, go: (gi[0] * 2,))
w.register_hook(lambda g: g + 1)
w.register_post_accumulate_grad_hook(lambda p: print(p.grad))
y = net(w)
y.grad_fn.register_hook(lambda gi, go: None)
y.sum().backward()
""",
    "custom-function": W
    + """
class Inner(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.exp()
    @staticmethod
    def backward(ctx, g):
        x, = ctx.saved_tensors
        with torch.enable_grad():
            z = x.detach().requires_grad_()
            d, = torch.autograd.grad(z.exp().sum(), z)
        return g * d
Inner.apply(w).sum().backward()
print(w.grad)
""",
    "double-backward": W
    + """
g, = torch.autograd.grad((w ** 3).sum(), w, create_graph=True)
g.square().sum().backward()
print(w.grad, torch.autograd.functional.hessian(lambda x: (x ** 3).sum(), w.detach()))
""",
    "checkpoint": W
    + """
from torch.utils.checkpoint import checkpoint
for reentrant in (True, False):
    y = checkpoint(lambda x: (x * 2).tanh().exp(), w, use_reentrant=reentrant)
    y.sum().backward()
    print(w.grad)
""",
    "autocast-scaler": """
net = torch.nn.Linear(4, 4)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 40)
for _ in range(3):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = net(torch.randn(2, 4)).float().square().mean()
    opt.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(opt)
    scaler.update()
    print(scaler.get_scale())
print(net.weight)
""",
    "complex-sparse-nested": W
    + """
c = torch.randn(3, dtype=torch.complex64, requires_grad=True)
(c * w).abs().sum().backward()
e = torch.nn.Embedding(5, 2, sparse=True)
e(torch.tensor([1, 1, 3])).sum().backward()
s = torch.eye(3).to_sparse().requires_grad_()
torch.sparse.mm(s, w.unsqueeze(1)).sum().backward()
n = torch.nested.nested_tensor([torch.randn(2, 3), torch.randn(4, 3)], requires_grad=True, layout=torch.jagged)
(n * 2).sin().values().sum().backward()
print(c.grad, e.weight.grad, w.grad, n.grad.values().shape)
""",
    "inference-mode": W
    + """
with torch.inference_mode():
    x = w * 2
@torch.inference_mode()
def f():
    return torch.is_inference_mode_enabled()
print(x.is_inference(), f(), torch.is_grad_enabled())
""",
    "generators": W
    + """
def gen():
    for i in range(3):
        yield (w * i).sum()
async def co():
    return (w * 2).sum()
import asyncio
for y in gen():
    y.backward()
asyncio.run(co()).backward()
print(w.grad)
""",
    "user-anomaly": W
    + """
print(torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled())
with torch.autograd.detect_anomaly(check_nan=False):
    print(torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled())
print(torch.is_anomaly_enabled())
(w.log() * 0).sum().backward()
print(w.grad)
""",
    "metadata": W + "y = w * 2\nprint(type(y.grad_fn.metadata))\n",
    "data-loader": """
from torch.utils.data import DataLoader
for batch in DataLoader(torch.arange(6.0), batch_size=2, num_workers=2):
    print(batch)
""",
    "caught-and-retried": W
    + """
for _ in range(40):
    y = (w * 2).tanh().sum()
    y.backward()
    try:
        y.backward()
    except RuntimeError as e:
        pass
print(w.grad)
""",
    "at-exit": W
    + """
import atexit, sys
atexit.register(print, "bye")
sys.excepthook = lambda *a: print("mine", a[0].__name__)
try:
    y = (w * 2).tanh().sum(); y.backward(); y.backward()
except RuntimeError:
    print("caught")
""",
    "exec-and-lambdas": W
    + """
for i in range(50):
    exec(f"y = (w * {i}).sum(); y.backward()")
print((lambda: (w * 2).grad_fn.name())())
""",
}

FAILING = {
    "twice": W + TWICE,
    "twice-warnings-are-errors": W + "import warnings\nwarnings.simplefilter('error')\n" + TWICE,
    "twice-anomaly": W + "torch.autograd.set_detect_anomaly(True)\n" + TWICE,
    "twice-anomaly-recursion": W
    + """
torch.autograd.set_detect_anomaly(True, check_nan=False)
def deep(n, x):
    return deep(n - 1, x) if n else (x * 2).tanh().sum()
y = deep(8, w)
y.backward()
y.backward()
""",
    # The forward of some nodes was seen by the user's anomaly mode, that of others was not.
    "version-anomaly-of-backward-alone": W
    + """
import sys
def go(y):
    with torch.autograd.detect_anomaly(check_nan=False):
        z = y.sum()
        try:
            z.backward()
        except RuntimeError as e:
            print(e, flush=True)
    sys.stderr.flush()
for _ in range(2):
    y = w.exp() * 2
    x = w.exp()
    x += 1
    go(x * y)
    with torch.autograd.detect_anomaly():
        x = w.tanh()
        x *= 2
    go(x)
y = w.exp()
y += 1
torch.autograd.set_detect_anomaly(True)
y.sum().backward()
""",
    "nan-anomaly": W
    + """
torch.autograd.set_detect_anomaly(True)
z = torch.zeros(2, requires_grad=True)
(z.sqrt() * z).sum().backward()
""",
    "create-graph": W
    + """
def step():
    g, = torch.autograd.grad((w.tanh() ** 2).sum(), w, create_graph=True)
    g.sum().backward()
    g.sum().backward()
step()
""",
    "version": W + "y = w.exp()\ny += 1\ny.sum().backward()\n",
    "no-graph": "x = torch.zeros(3)\nx.sum().backward()\n",
    "leaf": W + "w += 1\n",
    "deepcopy": W + "import copy\ncopy.deepcopy(w * 2)\n",
    "numpy": W + "(w * 2).numpy()\n",
    "unused": W + "torch.autograd.grad((torch.ones(1, requires_grad=True) * 2).sum(), w)\n",
    "chained": W
    + """
try:
    y = (w * 2).tanh().sum(); y.backward(); y.backward()
except RuntimeError as e:
    raise ValueError("training failed") from e
""",
    "while-handling": W
    + "try:\n    y = (w * 2).tanh().sum(); y.backward(); y.backward()\nexcept RuntimeError as e:\n    {}['missing']\n",
    "in-custom-backward": W
    + """
class F(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2
    @staticmethod
    def backward(ctx, g):
        y = (w * 2).tanh().sum()
        with torch.enable_grad():
            z = (g.detach().requires_grad_() * 2).tanh().sum()
            z.backward()
            z.backward()
F.apply(w).sum().backward()
""",
    "keyboard-interrupt": W + "(w * 2).register_hook(lambda g: None)\nraise KeyboardInterrupt\n",
    "interrupt-in-backward": W
    + "def stop(g):\n    raise KeyboardInterrupt\ny = w * 2\ny.register_hook(stop)\ny.sum().backward()\n",
    "odd-exception": W
    + """
class Odd(RuntimeError):
    def __str__(self):
        raise TypeError("no text")
def stop(g):
    raise Odd()
y = w * 2
y.register_hook(stop)
try:
    y.sum().backward()
except Odd:
    print("odd")
""",
    "zero-grad": "opt = torch.optim.SGD([torch.zeros(1)], lr=1)\nopt.param_groups = 3\nopt.zero_grad()\n",
    "load-state-dict": "torch.nn.Linear(2, 2).load_state_dict({'nothing': torch.zeros(1)})\n",
    "load-state-dict-type": "torch.nn.Linear(2, 2).load_state_dict(3)\n",
    "no-grad-block": "with torch.no_grad():\n    1 / 0\n",
    "no-grad-decorator": "@torch.no_grad()\ndef f(x):\n    return x / 0\nf(1)\n",
    "set-grad-enabled": "with torch.set_grad_enabled(False):\n    torch.set_grad_enabled(mode=1, more=2)\n",
    "excepthook": W + "import sys\nsys.excepthook = lambda *a: print('mine', a[1])\n" + TWICE,
    "exit-status": "raise SystemExit(7)\n",
    "deepest": W
    + """
import sys
def deep(x):
    return deep(x * 1.0001)
try:
    deep(w)
except RecursionError as e:
    print("deep")
raise RuntimeError("after")
""",
    "nested-tensor": """
n = torch.nested.nested_tensor([torch.randn(2, 3), torch.randn(4, 3)], requires_grad=True)
y = (n * 2).tanh().to_padded_tensor(0.0).sum()
y.backward()
y.backward()
""",
    "thread-leaf": W
    + "import threading\nt = threading.Thread(target=lambda: w.add_(1), name='T')\nt.start()\nt.join()\nprint('on')\n",
    "thread-twice": W
    + """
import threading
def work():
    y = (w * 2).tanh().sum()
    y.backward()
    y.backward()
t = threading.Thread(target=work, name="T")
t.start()
t.join()
raise LookupError("no result of the thread")
""",
    "thread-ordinary": W
    + "import threading\nt = threading.Thread(target=lambda: 1 / 0, name='T')\nt.start()\nt.join()\nw += 1\n",
    "dtensor": DTENSOR + "z = w.exp()\nwith torch.no_grad():\n    z.mul_(2)\nz.sum().backward()\n",
    "compiled-twice": COMPILED + "y = f(torch.randn(3, 4)).sum()\ny.backward()\ny.backward()\n",
    "inference": W + "with torch.inference_mode():\n    x = torch.ones(3)\n(x * w).sum().backward()\n",
}
