"""Which folder is the user's project, and patches that git and patch understand where he stands."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from commands import graphdoc

from graphdoc.fixes.apply import unified
from graphdoc.project import git_top, naming, project_root, where_to_apply

OLD, NEW = "a\nb\nc\n", "a\nX\nc\n"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = Path(os.path.realpath(tmp_path)) / "home" / "project"
    (root / "sub" / "deep").mkdir(parents=True)
    return root


@pytest.mark.parametrize("mark", [".git", "pyproject.toml", "setup.cfg", "setup.py", "pytest.ini"])
def test_the_root_is_the_nearest_folder_upwards_with_a_projects_file(tree: Path, mark: str) -> None:
    (tree / mark).mkdir() if mark == ".git" else (tree / mark).write_text("")
    assert project_root(tree / "sub" / "deep") == tree
    (tree / "sub" / "pyproject.toml").write_text("")
    assert project_root(tree / "sub" / "deep") == (tree if mark == ".git" else tree / "sub")


def test_a_worktree_has_a_file_called_git(tree: Path) -> None:
    (tree / ".git").write_text("gitdir: elsewhere\n")
    assert git_top(tree / "sub") == tree


def test_without_any_mark_it_is_where_the_user_stands_or_what_holds_his_script(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tree.parent))
    (tree / "train.py").write_text("")
    (tree.parent / "other").mkdir()
    (tree.parent / "other" / "x.py").write_text("")
    assert project_root(tree / "sub") == tree / "sub"
    assert project_root(tree / "sub", tree / "sub" / ".." / "train.py") == tree
    assert project_root(tree, tree.parent / "other" / "x.py") == tree  # the home folder is no project
    assert project_root(tree, Path(__file__)) == tree  # nor is what holds everything


def test_the_settings_may_name_it(tree: Path) -> None:
    (tree / ".git").mkdir()
    (tree / "pyproject.toml").write_text('[tool.graphdoc]\nroot = "sub"\n')
    assert project_root(tree / "sub" / "deep") == project_root(tree) == tree / "sub"
    for wrong in ('root = "nowhere"', 'root = "/"', "root = 3", "root ="):
        (tree / "pyproject.toml").write_text(f"[tool.graphdoc]\n{wrong}\n")
        assert project_root(tree / "sub") == tree, wrong


def write(root: Path, name: str) -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(OLD)
    return path


def patch_for(paths: list[Path], here: Path) -> tuple[bytes, Path]:
    called = naming([str(p) for p in paths], here, project_root(here))
    names = [called.names[str(p)] for p in paths]
    return unified(dict.fromkeys(names, OLD), dict.fromkeys(names, NEW)).encode(), called.base


ODD = ["with space.py", "naïve é.py", "qu\"ote's.py", "tab\there.py", "back\\slash.py", "日本.py"]


@pytest.mark.parametrize("tool", [["git", "apply"], ["patch", "-p1", "-s"]], ids=["git", "patch"])
@pytest.mark.parametrize("repository", [True, False], ids=["git-repository", "plain"])
@pytest.mark.parametrize("here", [".", "sub", "sub/deep", "a b/ü"])
@pytest.mark.parametrize("name", ["train.py", "pkg/model.py", *ODD])
def test_a_patch_applies_where_the_user_stands(
    tree: Path, tool: list[str], repository: bool, here: str, name: str
) -> None:
    """And nowhere else: a file of the same name lies in every other folder."""
    stands = tree / here
    stands.mkdir(parents=True, exist_ok=True)
    if repository:
        subprocess.run(["git", "init", "-q"], cwd=tree, check=True)
    meant = write(stands, name)
    others = [write(place, name) for place in (tree, tree / "sub", tree / "sub" / "deep") if place != stands]
    patch, base = patch_for([meant], stands)
    assert base == stands
    env = {**os.environ, "GIT_CEILING_DIRECTORIES": str(tree.parent)}
    done = subprocess.run(tool, input=patch, cwd=stands, capture_output=True, env=env)
    assert done.returncode == 0, done.stderr
    assert meant.read_text() == NEW
    assert all(path.read_text() == OLD for path in others)


def test_a_name_that_begins_with_the_folders_own_is_told_from_the_top(tree: Path) -> None:
    """Git takes ``a/sub/x.py`` for the file beside, where one stands in ``sub``."""
    subprocess.run(["git", "init", "-q"], cwd=tree, check=True)
    meant, beside = write(tree, "sub/sub/x.py"), write(tree, "sub/x.py")
    patch, base = patch_for([meant], tree / "sub")
    subprocess.run(["git", "apply"], input=patch, cwd=tree / "sub", check=True)
    assert (meant.read_text(), beside.read_text()) == (NEW, OLD)
    assert base == tree and where_to_apply(base, tree / "sub").endswith("`git -C .. apply` or `patch -p1 -d ..`")


@pytest.mark.parametrize("repository", [True, False])
@pytest.mark.parametrize("tool", [["git", "-C", "..", "apply"], ["patch", "-p1", "-s", "-d", ".."]])
def test_a_file_above_is_named_from_the_root(tree: Path, repository: bool, tool: list[str]) -> None:
    if repository:
        subprocess.run(["git", "init", "-q"], cwd=tree, check=True)
    (tree / "pyproject.toml").write_text("")
    above, below = write(tree, "train.py"), write(tree, "sub/model.py")
    patch, base = patch_for([above, below], tree / "sub")
    assert base == tree
    env = {**os.environ, "GIT_CEILING_DIRECTORIES": str(tree.parent)}
    subprocess.run(tool, input=patch, cwd=tree / "sub", check=True, env=env)
    assert (above.read_text(), below.read_text()) == (NEW, NEW)


CRASH = """\
import sys
sys.path.insert(0, {path!r})
from model import used_twice
loss = used_twice()
loss.backward()
"""
MODEL = """\
import torch


def used_twice():
    w = torch.ones(3, requires_grad=True)
    loss = (w * w).sum()
    loss.backward()
    return loss
"""


@pytest.mark.parametrize("marked", [True, False])
def test_a_project_started_from_a_subfolder_is_one_project(tree: Path, marked: bool) -> None:
    if marked:
        subprocess.run(["git", "init", "-q"], cwd=tree, check=True)
    here = tree / "sub"
    (tree / "train.py").write_text(CRASH.format(path=str(tree)))
    (tree / "model.py").write_text(MODEL)
    assert graphdoc(here, "run", "--no-rerun", "../train.py", forked=True).returncode == 1
    done = graphdoc(here, "fix", "--diff", "--no-verify")
    assert done.returncode == 3, done.stderr
    assert "`git -C .. apply`" in done.stderr
    subprocess.run(["git", "-C", "..", "apply"], input=done.stdout, cwd=here, text=True, check=True)
    assert (tree / "model.py").read_text() != MODEL or (tree / "train.py").read_text() != CRASH.format(path=str(tree))


@pytest.mark.slow
def test_undo_is_told_from_where_the_user_stands(tree: Path) -> None:
    subprocess.run(["git", "init", "-q"], cwd=tree, check=True)
    here, elsewhere = tree / "sub", tree.parent / "else where"
    elsewhere.mkdir()
    (tree / "train.py").write_text(CRASH.format(path=str(tree)))
    (tree / "model.py").write_text(MODEL)
    graphdoc(here, "run", "--no-rerun", "../train.py", forked=True)
    (run,) = (f for f in (here / ".graphdoc").iterdir() if f.is_dir())
    for stands in (here, tree, elsewhere):
        done = graphdoc(stands, "fix", str(run), "--unsafe", "--no-verify")
        assert done.returncode == 0, done.stderr
        changed = {name: (tree / name).read_text() for name in ("train.py", "model.py")}
        assert changed != {"train.py": CRASH.format(path=str(tree)), "model.py": MODEL}
        undo = done.stdout.partition("To undo: ")[2]
        if undo.startswith("graphdoc"):
            assert stands == here and graphdoc(here, *undo.split()[1:]).returncode == 0
        else:
            subprocess.run(undo, shell=True, cwd=stands, check=True)
        assert (tree / "train.py").read_text() == CRASH.format(path=str(tree))
        assert (tree / "model.py").read_text() == MODEL


def test_a_script_of_another_project_has_no_patch_and_the_reason_is_said(tree: Path) -> None:
    for name in ("one", "two"):
        (tree / name / ".git").mkdir(parents=True)
    (tree / "two" / "train.py").write_text(MODEL + "used_twice().backward()\n")
    assert graphdoc(tree / "one", "run", "--no-rerun", "../two/train.py", forked=True).returncode == 1
    done = graphdoc(tree / "one", "fix", "--diff", "--no-verify")
    assert done.returncode == 1 and done.stdout == ""
    assert "lies outside the project" in done.stderr
