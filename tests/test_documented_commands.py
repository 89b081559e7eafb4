"""Every graphdoc command that README and docs/ show can be typed: it is parsed, and it is run."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest
from commands import graphdoc
from typer.main import get_command

from graphdoc.cli.app import app

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
_BLOCK = re.compile(r"```(?:sh|console)\n(.*?)```", re.DOTALL)
_INLINE = re.compile(r"`(graphdoc [^`\n]+)`")
_PLACEHOLDER = re.compile(r"[A-Z]{4,}|[…$\[|]")
_OWN_TESTS = ("compare",)  # run the program twice, and under a compiler

TRAIN = """import sys, torch
model = torch.nn.Linear(2, 1)
loss = model(torch.ones(3, 2)).sum()
print(sys.argv[1:])
for _ in range(2):
    loss.backward()
"""
LOG = "RuntimeError: element 0 of tensors does not require grad and does not have a grad_fn\n"


def documented() -> list[str]:
    """The commands, without what a shell does with them and those that name a placeholder."""
    found: dict[str, None] = {}
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        lines = [line.removeprefix("$ ") for block in _BLOCK.findall(text) for line in block.splitlines()]
        for line in [*_INLINE.findall(text), *lines]:
            command = re.split(r"\s+(?:#|\||>|&&)", line)[0].strip()
            if command.startswith("graphdoc ") and not _PLACEHOLDER.search(command):
                found[command.removeprefix("graphdoc ")] = None
    return list(found)


def test_pages_show_commands() -> None:
    assert len(documented()) > 20


@pytest.mark.parametrize("command", documented())
def test_a_command_that_is_shown_is_parsed(command: str) -> None:
    name, *words = shlex.split(command)
    group = get_command(app)
    if name.startswith("--"):
        assert any(name in parameter.opts for parameter in group.params)
        return
    one = group.commands[name]  # type: ignore[attr-defined]
    if name == "run" and (not words or words == ["--show-settings"]):
        return  # the command's name; what is answered before any word is parsed
    assert one.make_context(name, list(words)).command is one


@pytest.mark.slow
def test_every_command_that_is_shown_is_run(tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "ci").mkdir()
    for name in ("train.py", "package/train.py"):
        (tmp_path / name).write_text(TRAIN)
    (tmp_path / "test_it.py").write_text("def test_it() -> None: ...\n")
    for name in ("job.log", "slurm-4711.out"):
        (tmp_path / name).write_text(LOG)
    told = graphdoc(tmp_path, "run", "train.py")
    assert told.returncode == 1 and "error[GD1" in told.stderr
    shutil.copy(next(tmp_path.glob(".graphdoc/*/evidence-*.json")), tmp_path / "ci/baseline.json")
    wrong = []
    for command in documented():
        words = shlex.split(command)
        if words[0] in _OWN_TESTS or words[0].startswith("--") or words == ["run"]:
            continue
        done = graphdoc(tmp_path, *words)
        if done.returncode not in (0, 1, 3) or "internal error" in done.stderr or "Usage:" in done.stderr:
            wrong.append((command, done.returncode, done.stderr[-300:]))
    assert not wrong
