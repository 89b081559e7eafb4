"""What a program can see of its own process: the same with observation as without.

Known to differ, and left: entries in ``sys.modules`` and in ``sys.path_importer_cache`` (the capture has to be imported
somehow), one callback more of ``atexit`` and one more of optimizers, names with ``_graphdoc_`` in modules of PyTorch
whose functions have a call of ours in their code, and the type of a hook or of a function that was written in C.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "capture"))

from observed import both

LOOK = r"""
import sys
import torch
import gc, importlib, inspect, linecache, os, re, signal, stat, threading, types, warnings

CALLABLE = (types.FunctionType, types.BuiltinFunctionType, types.MethodType, types.MethodDescriptorType)
CODE = ("co_filename", "co_name", "co_qualname", "co_firstlineno", "co_argcount", "co_kwonlyargcount", "co_freevars")
TORCH = r"torch(\.(_C|autograd.*|optim\.optimizer|nn\.modules\.module|nn\.utils.*|fx\.traceback|amp.*|utils\.c.*))?"
PYTHON = r"(sys|os|threading|warnings|linecache|traceback|inspect|importlib|builtins|multiprocessing|signal|gc)(\..*)?"
THEIRS = ("torch._C._dynamo.guards._", "torch.utils.hooks.RemovableHandle.next_id")  # addresses; a counter

def told(value):
    if not isinstance(value, CALLABLE):
        return repr(value) if isinstance(value, (str, int, float, bytes)) else ""
    try:
        signature = str(inspect.signature(value))
    except Exception as e:
        signature = type(e).__name__
    names = [getattr(value, n, None) for n in ("__name__", "__qualname__", "__module__", "__doc__")]
    code = getattr(inspect.unwrap(value), "__code__", None)
    return [*names, signature, [getattr(code, n, None) for n in CODE]]

def functions():
    found = {}
    for name, module in sorted(sys.modules.items()):
        if re.fullmatch(f"{TORCH}|{PYTHON}", name) and isinstance(module, types.ModuleType):
            for key, value in list(vars(module).items()):
                found[f"{name}.{key}"] = told(value)
                if isinstance(value, type) and value.__module__ == name:
                    found |= {f"{name}.{key}.{k}": told(getattr(v, "__func__", v)) for k, v in vars(value).items()}
    return {k: v for k, v in found.items() if "_graphdoc_" not in k and not k.startswith(THEIRS)}

def is_open(number):
    try:
        return bool(os.fstat(number))
    except OSError:
        return False  # that of listdir itself

def state():
    hooks = ("excepthook", "displayhook", "unraisablehook", "breakpointhook")
    return {
        "linecache": sorted(linecache.cache),
        "hooks": [getattr(sys, h) is getattr(sys, f"__{h}__") for h in hooks],
        "threading": threading.excepthook is threading.__excepthook__,
        "anomaly": [torch.is_anomaly_enabled(), torch.is_anomaly_enabled is torch._C.is_anomaly_enabled],
        "paths": [sys.path, [str(p) for p in sys.meta_path], [str(p) for p in sys.path_hooks]],
        "flags": [str(sys.flags), sys.argv, sys.orig_argv],
        "filters": [str(f) for f in warnings.filters],
        "shown": warnings.showwarning is warnings._showwarning_orig,
        "gc": [gc.get_threshold(), gc.isenabled(), gc.callbacks, gc.get_debug()],
        "threads": [t.name for t in threading.enumerate()] + [len(sys._current_frames())],
        "signals": {int(s): str(signal.getsignal(s)) for s in signal.valid_signals()},
        "limits": [sys.getrecursionlimit(), sys.getswitchinterval(), sys.gettrace(), sys.getprofile()],
        "environment": dict(os.environ),
        "files": {f: stat.S_IFMT(os.stat(int(f)).st_mode) for f in os.listdir("/proc/self/fd") if is_open(int(f))},
        "cwd": os.getcwd(),
        "sources": inspect.getsource(torch.fx.traceback.format_stack) + inspect.getsource(torch.no_grad.__enter__),
        "grad": [torch.is_grad_enabled(), torch.get_default_dtype(), torch.get_rng_state().sum().item()],
        "main": sorted(vars(sys.modules["__main__"])),
    }

def show(moment):
    cache = set(linecache.cache)
    everything = state() | (functions() if moment == "failed" else {})
    for name in set(linecache.cache) - cache:
        del linecache.cache[name]  # asked for here
    for key, value in everything.items():
        print(re.sub("0x[0-9a-f]+", "0x", f"{moment} {key} {value}"))

import torch.autograd.graph, torch.fx.traceback
vars(torch.autograd.graph).pop("__warningregistry__", None)  # of a test before this one, in the process it forks from
torch.manual_seed(0)
show("imported")
"""
TRAIN = """
net = torch.nn.Linear(2, 1)
opt = torch.optim.AdamW(net.parameters())
for _ in range(3):
    opt.zero_grad()
    loss = net(torch.ones(3, 2)).square().mean()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    opt.step()
show("trained")
try:
    loss.backward()
except RuntimeError as e:
    print(e)
show("failed")
"""


def same(plain: str, seen: str) -> None:
    before, after = set(plain.splitlines()), set(seen.splitlines())
    assert len(before) > 2000
    assert not before ^ after, "\n".join(sorted(line[:2000] for line in before ^ after))


def test_the_capture_leaves_the_process_as_it_was(tmp_path: Path) -> None:
    """All but what the start-up hook does, which is not there in a fork."""
    (tmp_path / "look.py").write_text(LOOK + TRAIN)
    plain, observed = both(tmp_path / "look.py")
    seen = observed.result
    assert plain.status == seen.status == 0, plain.stderr + seen.stderr
    assert observed.evidence and not observed.troubles
    same(plain.stdout, seen.stdout)


@pytest.mark.slow
def test_the_program_sees_the_same_process(pair: Any) -> None:
    (pair.folder / "look.py").write_text(LOOK + TRAIN)
    plain, seen = pair.both("look.py")
    assert plain.returncode == seen.returncode == 0, plain.stderr.decode() + seen.stderr.decode()
    same(plain.stdout.decode(), seen.stdout.decode())
