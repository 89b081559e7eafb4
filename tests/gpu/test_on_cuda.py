"""graphdoc on a GPU: the diagnoses, places and fixes of the CPU, the program's own numbers, and no more waits.

With GRAPHDOC_TEST_DEVICE=cpu all that needs no GPU runs on the CPU, which tries these programs and the comparison.
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

TESTS = Path(__file__).resolve().parents[1]
EXAMPLES, FIXTURES = TESTS / "causes" / "examples", TESTS.parent / "fixtures"
DEVICE = os.environ.get("GRAPHDOC_TEST_DEVICE", "cuda")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(DEVICE == "cuda" and not torch.cuda.is_available(), reason="there is no GPU"),
]
on_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")

ALIKE = (
    *("carried-state", "graph-built-once", "shared-subgraph-losses", "undetached-target"),
    *("optimizer-step-before-backward", "inplace-on-saved-activation", "state-overwritten-in-place"),
    *("cut-by-conversion", "cut-by-no-grad", "frozen-parameters", "nan-sqrt-at-zero", "nan-masked-softmax"),
    *("zero-grad-missing", "cleared-before-step"),
)
"""Causes of which one example is run on both devices."""
SEEDS = (
    "ppo_three_networks_a",
    "recurrent_policy_lstm",
    "policy_loss_from_sampled_action",
    "trust_region_grad_aliased",
)
"""The troubles that graphdoc was begun for, as programs of ``fixtures``."""

HEAD = f"import torch\nfrom torch import nn\ntorch.manual_seed(0)\ndevice = {DEVICE!r}\n"
TRAINED = """
net = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 8)).to(device)
x, y = torch.randn(64, 32, device=device), torch.randn(64, 8, device=device)
"""
HEALTHY = {
    "amp": TRAINED
    + """
optimizer, scaler = torch.optim.AdamW(net.parameters(), 1e-3), torch.amp.GradScaler(device)
for _ in range(12):
    with torch.autocast(device, torch.float16):
        loss = nn.functional.mse_loss(net(x), y.half())
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
""",
    "fused": TRAINED
    + """
optimizer = torch.optim.AdamW(net.parameters(), 1e-3, fused=True)
for _ in range(12):
    loss = nn.functional.mse_loss(net(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    "graph": TRAINED
    + """
optimizer = torch.optim.AdamW(net.parameters(), 1e-3, capturable=True)
def step():
    optimizer.zero_grad(set_to_none=True)
    loss = nn.functional.mse_loss(net(x), y)
    loss.backward()
    optimizer.step()
    return loss.detach()
side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    for _ in range(3):
        step()
torch.cuda.current_stream().wait_stream(side)
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    loss = step()
for _ in range(12):
    graph.replay()
""",
    "compiled": TRAINED
    + """
fast, optimizer = torch.compile(net), torch.optim.SGD(net.parameters(), 1e-2)
for _ in range(6):
    loss = nn.functional.mse_loss(fast(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    **{
        kernel: f"""
from torch.nn.attention import SDPBackend, sdpa_kernel
qkv = nn.Linear(64, 192).to(device, torch.bfloat16)
optimizer = torch.optim.SGD(qkv.parameters(), 1e-1)
for _ in range(6):
    x = torch.randn(2, 4, 128, 64, device=device, dtype=torch.bfloat16)
    q, k, v = qkv(x).chunk(3, -1)
    with sdpa_kernel(SDPBackend.{kernel}):
        loss = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True).float().square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
        for kernel in ("MATH", "FLASH_ATTENTION", "EFFICIENT_ATTENTION", "CUDNN_ATTENTION")
    },
}
ON_CUDA = ("graph", "EFFICIENT_ATTENTION", "CUDNN_ATTENTION")
"""What has no counterpart on the CPU."""
WAITS = (
    TRAINED
    + """
optimizer = torch.optim.SGD(net.parameters(), 1e-2)
def step():
    loss = nn.functional.mse_loss(net(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
for _ in range(200):
    step()
with torch.profiler.profile(activities=list(torch.profiler.supported_activities())) as profile:
    for _ in range(20):
        step()
print(sum(e.count for e in profile.key_averages() if 'Synchronize' in e.key or 'DtoH' in e.key))
"""
)
LARGE = """
import torch
kept = torch.empty(int(0.55 * torch.cuda.mem_get_info()[0]), dtype=torch.uint8, device="cuda")
"""
"""Memory of which two runs at a time do not have enough."""
WARM_UP = (
    TRAINED
    + """
optimizer = torch.optim.SGD(net.parameters(), 1e-2)
side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    for _ in range(3):
        warm = nn.functional.mse_loss(net(x), y)
        optimizer.zero_grad()
        warm.backward()
        optimizer.step()
torch.cuda.current_stream().wait_stream(side)
for _ in range(3):
    loss = nn.functional.mse_loss(net(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
)


def run(folder: Path, code: str, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a program as ``train.py`` in a folder of its own."""
    folder.mkdir(exist_ok=True)
    (folder / "train.py").write_text(code)
    call = [sys.executable, *command] if command else [sys.executable, "train.py"]
    return subprocess.run(call, cwd=folder, capture_output=True, text=True, timeout=300)


def reported(folder: Path, code: str) -> Any:
    run(folder, code, "-m", "graphdoc", "run", "--report", "json:report.json", "train.py")
    return json.loads((folder / "report.json").read_text())["diagnoses"]


def placed(code: str, device: str) -> str:
    """The program with its tensors on a device; every line stays where it is."""
    first = next(s for s in ast.parse(code).body if isinstance(s, ast.Import | ast.ImportFrom))
    lines = code.splitlines(keepends=True)
    lines[first.lineno - 1] = f"import torch; torch.set_default_device({device!r}); " + lines[first.lineno - 1]
    return "".join(lines)


def told(diagnosis: Any) -> Any:
    """What a reader acts on: the cause, the lines and the first patch."""
    lines = sorted({(s["role"], s["line"]) for s in diagnosis["spans"]})
    return diagnosis["code"], lines, changes(diagnosis["fixes"][0]["diff"] if diagnosis["fixes"] else "")


def changes(diff: str) -> list[str]:
    """The lines that a patch takes and gives."""
    return [line for line in diff.splitlines() if line[:1] in ("+", "-")]


def example(slug: str) -> str:
    """The first sick example of a cause."""
    return next(t for p in sorted((EXAMPLES / slug).glob("*.py")) if "# told at:" in (t := p.read_text()))


@pytest.mark.parametrize("slug", ALIKE)
def test_what_is_told_is_the_same_on_both_devices(slug: str, tmp_path: Path) -> None:
    places = (("first", "cpu"), ("other", DEVICE))
    cpu, other = (reported(tmp_path / folder, placed(example(slug), device)) for folder, device in places)
    assert cpu and told(cpu[0]) == told(other[0])


@pytest.mark.parametrize("name", SEEDS)
def test_the_first_troubles_are_told_and_mended_alike(name: str, tmp_path: Path) -> None:
    code = (FIXTURES / name / "train.py").read_text()
    found = []
    for folder, device in (("first", "cpu"), ("other", DEVICE)):
        diagnoses = reported(tmp_path / folder, placed(code, device))
        fixed = run(tmp_path / folder, placed(code, device), "-m", "graphdoc", "fix", "--diff")
        found.append((told(diagnoses[0]), fixed.returncode, changes(fixed.stdout)))
    assert found[0] == found[1]


@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_program_has_its_own_numbers_and_no_finding(name: str, tmp_path: Path) -> None:
    if name in ON_CUDA and DEVICE != "cuda":
        pytest.skip("there is no GPU")
    code = HEAD + HEALTHY[name] + "print(loss.item())\n"
    plain = run(tmp_path, code)
    observed = run(tmp_path, code, "-m", "graphdoc", "run", "train.py")
    assert plain.returncode == 0, plain.stderr
    assert (observed.returncode, observed.stdout) == (0, plain.stdout), observed.stderr
    assert "[GD" not in observed.stderr


def test_a_step_waits_for_the_gpu_no_more_often(tmp_path: Path) -> None:
    plain = run(tmp_path, HEAD + WAITS)
    observed = run(tmp_path, HEAD + WAITS, "-m", "graphdoc", "run", "train.py")
    assert plain.stdout.strip().isdigit(), plain.stderr
    assert observed.stdout == plain.stdout


@on_cuda
def test_a_node_of_another_stream_leads_to_the_loss_that_keeps_it(tmp_path: Path) -> None:
    found = reported(tmp_path, HEAD + WARM_UP)
    assert [d["code"] for d in found] == ["GD811"]
    assert "`warm`" in found[0]["title"]


def test_each_trial_gives_its_memory_back_before_the_next(tmp_path: Path) -> None:
    code = (LARGE if DEVICE == "cuda" else "") + placed(example("carried-state"), DEVICE)
    reported(tmp_path, code)
    fixed = run(tmp_path, code, "-m", "graphdoc", "fix", "--diff")
    assert fixed.stdout.startswith("--- a/train.py"), fixed.stderr
