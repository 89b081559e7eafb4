"""Every way in which torch can come into a process: it is observed once it has been executed, and nothing shows."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from typing import Any

import pytest

from graphdoc.evidence import Evidence
from graphdoc.launch import HOOK

FAKE = "import sys\nAT_ITS_END = 'graphdoc.capture' in sys.modules\n"
"""Stands for torch where only the moment matters: the capture must not be there before its last line has run."""

THERE = "import sys; sys.stdout.write(f'{torch.AT_ITS_END} {\"graphdoc.capture\" in sys.modules}\\n')\n"

WAYS = {
    "import": "import torch\n",
    "find_spec": "import importlib.util\nassert importlib.util.find_spec('torch')\nimport torch\n",
    "find_spec-often": (
        "from importlib.util import find_spec\n"
        "assert find_spec('torch') == find_spec('torch') and set(vars(find_spec('torch').loader)) == {'name', 'path'}\n"
        "import torch\n"
    ),
    "find_spec-of-a-part": "import importlib.util\nassert importlib.util.find_spec('torch.part')\nimport torch\n",
    "part-first": "import torch.part\n",
    "from-part": "from torch.part import x\nimport torch\n",
    "import_module": "import importlib\ntorch = importlib.import_module('torch')\n",
    "dunder-import": "torch = __import__('torch.part')\n",
    "lazy-loader": """
import importlib.util, sys
spec = importlib.util.find_spec('torch')
spec.loader = importlib.util.LazyLoader(spec.loader)
torch = sys.modules['torch'] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(torch)
assert 'graphdoc.capture' not in sys.modules
""",
    "lazy-loader-and-import": """
import importlib.util, sys
spec = importlib.util.find_spec('torch')
spec.loader = importlib.util.LazyLoader(spec.loader)
sys.modules['torch'] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(sys.modules['torch'])
assert 'graphdoc.capture' not in sys.modules
import torch
""",
    "lazy-loader-without-finders": """
import importlib.util, sys
spec = importlib.util.find_spec('torch')
spec.loader = importlib.util.LazyLoader(spec.loader)
torch = sys.modules['torch'] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(torch)
sys.meta_path[:] = []
""",
    "module-getattr": """
import sys, types
class Lazy(types.ModuleType):
    def __getattr__(self, name):
        import torch
        return getattr(torch, name)
lazy = Lazy('lazy')
lazy.AT_ITS_END
import torch
""",
    "exec_module-by-hand": """
import importlib.util, sys
spec = importlib.util.spec_from_file_location('torch', 'torch/__init__.py', submodule_search_locations=['torch'])
torch = sys.modules['torch'] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(torch)
""",
    "failed-and-tried-again": """
import sys
sys.path.insert(0, 'bad')
try:
    import torch
except ImportError:
    pass
assert 'graphdoc.capture' not in sys.modules
sys.path.remove('bad')
import torch
""",
    "interrupted-and-tried-again": """
import sys
sys.stop = True
try:
    import torch
except KeyboardInterrupt:
    sys.stop = False
assert 'graphdoc.capture' not in sys.modules
import torch
""",
    "reload": "import importlib, torch\nassert not torch.AT_ITS_END\ntorch.__dict__.pop('AT_ITS_END')\n"
    "importlib.reload(torch)\nassert torch.AT_ITS_END\ntorch.AT_ITS_END = False\n",
    "thread": "import threading\nt = threading.Thread(target=__import__, args=('torch',))\nt.start()\nt.join()\n"
    "import torch\n",
    "threads-at-once": """
import sys, threading
sys.slow = True
start = threading.Barrier(8)
def load():
    start.wait()
    import torch
    assert 'graphdoc.capture' in sys.modules
    seen.append(torch.AT_ITS_END)
seen = []
threads = [threading.Thread(target=load) for _ in range(8)]
[t.start() for t in threads]
[t.join() for t in threads]
assert seen == [False] * 8
import torch
""",
    "finder-in-front": """
import sys
from importlib.machinery import PathFinder
class Front:
    @staticmethod
    def find_spec(name, path=None, target=None):
        return PathFinder.find_spec(name, path, target)
sys.meta_path.insert(0, Front)
import torch
""",
    "finder-in-front-with-a-loader-of-its-own": """
import sys
from importlib.machinery import ModuleSpec
class Frozen:
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return ModuleSpec(name, cls, is_package=True) if name == 'torch' else None
    create_module = staticmethod(lambda spec: None)
    @staticmethod
    def exec_module(module):
        exec(open('torch/__init__.py').read(), module.__dict__)
sys.meta_path.insert(0, Frozen)
import torch
""",
    "old-loader": """
import sys, types, warnings
warnings.simplefilter('ignore')
from importlib.machinery import ModuleSpec
class Old:
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return ModuleSpec(name, cls) if name == 'torch' else None
    @staticmethod
    def load_module(name):
        module = sys.modules[name] = types.ModuleType(name)
        exec(open('torch/__init__.py').read(), module.__dict__)
        return module
sys.meta_path.insert(0, Old)
import torch
""",
    "meta_path-cleared": """
import sys
from importlib.machinery import PathFinder
sys.meta_path.clear()
sys.meta_path.append(PathFinder)
import torch
""",
    "meta_path-replaced": """
import sys
sys.meta_path = [f for f in sys.meta_path if isinstance(f, type)]
import torch
""",
    "vendored": """
import os, sys
os.rename('torch', 'vendored')
os.mkdir('_vendor')
os.rename('vendored', '_vendor/torch')
sys.path.insert(0, '_vendor')
import torch
""",
    "zip": "import os, sys\nos.rename('torch', 'gone')\nsys.path.insert(0, 'torch.zip')\nimport torch\n",
    "bytecode-alone": """
import os, py_compile, sys
py_compile.compile('torch/__init__.py', 'torch/__init__.pyc')
os.remove('torch/__init__.py')
import torch
""",
    "forked": """
import os
if os.fork():
    sys = __import__('sys')
    assert os.wait()[1] == 0 and 'graphdoc.capture' not in sys.modules
    os._exit(0)
import torch
""",
    "torch-replaces-itself": """
import os
os.rename('torch', 'gone')
open('torch.py', 'w').write(
    "import sys, types\\nm = types.ModuleType('torch')\\n"
    "m.AT_ITS_END = 'graphdoc.capture' in sys.modules\\nsys.modules['torch'] = m\\n"
)
import torch
""",
}

STOPPING = "import sys, time\nif getattr(sys, 'slow', False): time.sleep(0.2)\n" + (
    "if getattr(sys, 'stop', False): raise KeyboardInterrupt\n"
)


def fake(pair: Any) -> None:
    pair.write("torch/__init__.py", STOPPING + FAKE)
    pair.write("torch/part.py", "x = 1\n")
    pair.write("bad/torch.py", "raise ImportError('not yet')\n")
    with zipfile.ZipFile(pair.folder / "torch.zip", "w") as archive:
        archive.writestr("torch/__init__.py", STOPPING + FAKE)


@pytest.mark.breadth(5)
@pytest.mark.parametrize("way", WAYS)
def test_the_capture_comes_when_torch_has_been_executed(pair: Any, way: str) -> None:
    fake(pair)
    pair.write("train.py", WAYS[way] + THERE)
    done = pair.run(pair.observed("train.py"))
    assert done.stdout == b"False True\n", done.stderr.decode()
    assert done.stderr == b""


@pytest.mark.breadth(1)
@pytest.mark.parametrize("way", ["import", "lazy-loader", "finder-in-front-with-a-loader-of-its-own"])
def test_importlib_gets_its_function_back(pair: Any, way: str) -> None:
    fake(pair)
    look = "[len(c.__code__.co_consts) for c in [__import__('_frozen_importlib')._call_with_frames_removed]]"
    pair.write("train.py", f"print({look})\n" + WAYS[way] + f"torch.AT_ITS_END\nprint({look})\n")
    pair.write("plain.py", f"print({look})\n")
    before, after = pair.run(pair.observed("train.py")).stdout.splitlines()
    plain = pair.run(pair.plain("plain.py")).stdout.strip()
    assert after == plain != before


@pytest.mark.breadth(2)
@pytest.mark.parametrize(
    "text",
    [
        "import importlib.util\ns = importlib.util.spec_from_file_location('m', 'm.py')\n"
        "s.loader.exec_module(importlib.util.module_from_spec(s))\n",
        "import m\n",
        "import sys\nclass F:\n    def find_spec(*a):\n        1 / 0\nsys.meta_path.insert(0, F())\nimport m\n",
        "import sys\nfrom importlib.machinery import ModuleSpec\n"
        "class F:\n    find_spec = classmethod(lambda c, n, *a: ModuleSpec(n, c()))\n"
        "    def create_module(self, spec): pass\n"
        "    def exec_module(self, m):\n        raise KeyError(m.__name__)\n"
        "sys.meta_path.insert(0, F)\nimport m\n",
        "import importlib, n\nopen('n.py', 'w').write('# changed\\n\\nraise ValueError(3)\\n')\nimportlib.reload(n)\n",
    ],
    ids=["by-hand", "import", "finder", "loader", "reload"],
)
def test_an_import_that_fails_shows_the_same_frames(pair: Any, text: str) -> None:
    pair.write("m.py", "def f():\n    return {}['key']\n\nf()\n")
    pair.write("n.py", "")
    pair.write("train.py", text)
    plain = pair.run(pair.plain("train.py"))
    pair.write("n.py", "")
    observed = pair.run(pair.observed("train.py"))
    assert plain.returncode == 1
    assert observed.stderr == plain.stderr


def test_torch_that_a_pth_file_has_imported(pair: Any) -> None:
    """Such files are read before the start-up hook runs (Lib/site.py, main): torch is in sys.modules by then."""
    fake(pair)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(pair.folder / "venv")], check=True)
    (site,) = (pair.folder / "venv").glob("lib/python*/site-packages")
    (site / "early.pth").write_text(f"import sys; sys.path.insert(0, {str(pair.folder)!r}); import torch\n")
    pair.write("train.py", "import torch\n" + THERE)
    environment = {**pair.env, "GRAPHDOC_OUT": str(pair.out), "GRAPHDOC_KIND": "script", "PYTHONPATH": str(HOOK)}
    done = subprocess.run(
        [str(pair.folder / "venv/bin/python"), "train.py"],
        cwd=pair.folder,
        env=environment,
        capture_output=True,
        check=False,
    )
    assert done.stdout == b"False True\n", done.stderr.decode()


TWICE = "w = torch.ones(2, requires_grad=True)\ny = (w * w).sum()\ny.backward()\ny.backward()\n"

REAL = {
    "find_spec": WAYS["find_spec"],
    "lazy-loader": WAYS["lazy-loader"],
    "part-first": "import torch._C\nimport torch.nn\n",
    "reload": """
import importlib, torch
try:
    importlib.reload(torch)  # torch refuses to register its libraries again, but has run nearly to its end
except (RuntimeError, ImportError) as e:
    assert 'TORCH_LIBRARY' in str(e) or 'once per process' in str(e)  # 2.15 refuses at its beginning
assert torch.is_anomaly_enabled() is False
""",
}


@pytest.mark.parametrize("way", [pytest.param(w, marks=pytest.mark.slow if n else ()) for n, w in enumerate(REAL)])
def test_what_fails_then_is_seen(pair: Any, way: str) -> None:
    pair.write("train.py", REAL[way] + TWICE)
    plain, observed = pair.both("train.py")
    assert observed.returncode == plain.returncode == 1
    assert observed.stderr == plain.stderr
    if b"RecursionError" in plain.stderr:
        pytest.skip("from Python 3.13 a LazyLoader cannot load torch: it recurses without end, also without us")
    (file,) = pair.out.glob("evidence-*.json")
    raised = Evidence.read(str(file)).raised
    assert raised is not None and "second time" in raised.message
    assert sorted(name.rpartition(".")[2] for name in os.listdir(pair.out) if name.startswith("process-")) == [
        "ended",
        "loading",
        "observed",
        "started",
    ]
