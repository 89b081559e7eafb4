"""The user's project: which folder it is, and what a patch calls the files in it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from graphdoc.documents import read_regular
from graphdoc.errors import UsageError

_MARKS = (".hg", "pyproject.toml", "setup.cfg", "setup.py", "pytest.ini", "tox.ini", "ruff.toml", ".ruff.toml")
"""What stands at the top of a project that is in no git repository; pytest and ruff look for the same."""
_SETTINGS = "pyproject.toml"
MOST_BYTES = 1_000_000
"""Of a file of settings; nobody has written a longer one."""


@dataclass(frozen=True)
class Naming:
    """What a patch calls its files: the name of each absolute path, and the folder ``base`` that names start from."""

    names: dict[str, str]
    base: Path


def git_top(folder: Path) -> Path | None:
    """The top of the git work tree that ``folder`` lies in, or None. Git itself is not asked: a stranger's repository
    can make it run commands."""
    return next((f for f in (folder, *folder.parents) if _ours(f / ".git")), None)


def project_root(folder: Path, script: Path | None = None) -> Path:
    """The folder below which files of the project lie, for someone who stands in ``folder``; links resolved.

    What the project's settings name as ``root``, else the top of the git work tree, else the nearest folder upwards
    with a project's file. Where there is none of these, the folder itself; or, for a ``script`` that the user has named
    in another one (``cd experiments``, ``python ../train.py``), the folder that holds both, if that is a narrower one
    than the user's home.
    """
    folder = Path(os.path.realpath(folder))
    named = _named_root(folder)
    if named is not None:
        return named
    top = git_top(folder)
    if top is not None:
        return top
    for place in (folder, *folder.parents):
        if any(_ours(place / mark) for mark in _MARKS):
            return place
    if script is not None and script.is_file():
        both = Path(os.path.commonpath([folder, os.path.realpath(script.parent)]))
        home = Path(os.path.realpath(os.path.expanduser("~")))
        if len(both.parts) > 2 and both not in (home, *home.parents):  # no folder of everybody's, as / and /tmp are
            return both
    return folder


def settings_of(folder: Path) -> tuple[Path | None, dict[str, Any]]:
    """The nearest pyproject.toml upwards that has a table ``[tool.graphdoc]``, as far as the top of the repository, and
    that table as it stands there.

    Raises:
        UsageError: it cannot be read as TOML, or is a pipe, a device or longer than any that is one.
    """
    for place in (folder, *folder.parents):
        file = place / _SETTINGS
        data = _settings_text(file)
        if b"tool.graphdoc" in data:
            import tomllib

            try:
                tool = tomllib.loads(data.decode()).get("tool")
            except ValueError as e:
                raise UsageError(f"{file} is not TOML: {e}") from e
            except RecursionError as e:
                raise UsageError(f"{file} cannot be read: its values are nested too deeply") from e
            table = tool.get("graphdoc") if isinstance(tool, dict) else None
            if isinstance(table, dict):
                return file, table
        if (place / ".git").exists():
            break
    return None, {}


def _settings_text(file: Path) -> bytes:
    """What a file of settings holds; nothing where there is none, or what stands there is of no use and another's."""
    try:
        data = read_regular(file, MOST_BYTES + 1)
        wrong = f"it is longer than {MOST_BYTES // 1_000_000} MB" if len(data) > MOST_BYTES else ""
    except (FileNotFoundError, IsADirectoryError, PermissionError):
        return b""
    except OSError as e:
        wrong = e.strerror or str(e)
    if not wrong:
        return data
    if _ours(file):
        raise UsageError(f"cannot read {file}: {wrong}")
    return b""


def inside(path: Path, folder: Path) -> bool:
    """Whether a path lies in a folder, or is that folder, once all links are followed."""
    real, top = Path(os.path.realpath(path)), Path(os.path.realpath(folder))
    return top == real or top in real.parents


def _named_root(folder: Path) -> Path | None:
    """What the settings call the project's root, if there is such a folder beside or below them, and they are the
    user's own."""
    try:
        file, table = settings_of(folder)
    except UsageError:
        return None
    root = table.get("root")
    if file is None or not isinstance(root, str) or not _ours(file):
        return None
    named = Path(os.path.realpath(file.parent / root))
    wide = len(named.parts) < 3  # as / and /home are
    return named if named.is_dir() and inside(named, file.parent) and not wide else None


def working_directory() -> Path:
    """The working directory, links resolved; the root of the file system where it has been deleted."""
    try:
        return Path(os.path.realpath(os.getcwd()))
    except OSError:
        return Path(os.sep)


def naming(paths: Iterable[str], here: Path, root: Path) -> Naming:
    """What a patch for these absolute paths calls them, for someone who stands in ``here``; links are resolved.

    Names start from ``here`` wherever `git apply` and `patch -p1` both understand them there. Git takes the names of a
    plain unified diff from the working directory, but where one begins with that directory's own name within the
    repository it takes it from the top (``guess_p_value`` in git's apply.c); and no patch can name a file above the
    directory that it is applied in. In these cases names start from the top, as `git diff` writes them.
    """
    paths = list(paths)
    here = Path(os.path.realpath(here))
    top = git_top(here)
    base = here
    if not _all_below(paths, here):
        base = top if top is not None and _all_below(paths, top) else root
    elif top is not None and top != here:
        prefix = here.relative_to(top).as_posix() + "/"
        if any(_name(path, here).startswith(prefix) for path in paths):
            base = top
    return Naming({path: _name(path, base) for path in paths}, base)


def where_to_apply(base: Path, here: Path) -> str:
    """A line on where a patch applies whose names start from another folder than ``here``; empty where it is that."""
    here = Path(os.path.realpath(here))
    if base == here:
        return ""
    shown = os.path.relpath(base, here) if base in here.parents else str(base)
    return f"the patch is for {base}: `git -C {shown} apply` or `patch -p1 -d {shown}`"


def _name(path: str, base: Path) -> str:
    return os.path.relpath(path, base).replace(os.sep, "/")


def _all_below(paths: Iterable[str], folder: Path) -> bool:
    return all(folder in Path(path).parents for path in paths)


def _ours(mark: Path) -> bool:
    """Whether it is there and another user of the machine has not put it there (in /tmp, for one)."""
    try:
        owner = mark.stat().st_uid
    except OSError:
        return False
    me = os.getuid() if hasattr(os, "getuid") else owner
    return me == 0 or owner in (0, me)


def is_installed(path: str) -> bool:
    """Whether a file belongs to an installed package."""
    return bool({"site-packages", "dist-packages"} & set(Path(path).parts))
