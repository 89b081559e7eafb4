"""Which file a ``--report FORMAT[:FILE]`` goes to, and what it may replace there."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from graphdoc.documents import read_regular
from graphdoc.errors import UsageError
from graphdoc.project import inside

_SOURCES = (".py", ".pyi", ".pyw", ".pyx", ".ipynb")


@dataclass(frozen=True)
class Wanted:
    """One ``--report``: a format, and the file it goes to (None: stderr).

    ``project`` is the folder of the settings that name it, None where the user has typed it himself. Settings may be a
    stranger's: their file lies in that folder, hidden nowhere, and replaces nothing but a report.
    """

    format: str
    file: Path | None = None
    project: Path | None = None

    def refusal(self, sources: Iterable[str] = ()) -> str:
        """Why nothing is written there, or an empty string. ``sources`` are files of the program: what a user types
        himself replaces any file but such a one, and Python's."""
        if self.file is None:
            return ""
        if self.project is not None:
            return _led_out(self.file, self.project) or ("" if _replaceable(self.file) else "graphdoc did not write it")
        same = self.file.suffix in _SOURCES or any(_same(self.file, source) for source in sources)
        return "it is a source file" if same and self.file.is_file() and not _replaceable(self.file) else ""


def parse_reports(values: Sequence[str], project: Path | None = None, sources: Iterable[str] = ()) -> list[Wanted]:
    """Read the values of ``--report``, or those of settings in the folder ``project``.

    Raises:
        UsageError: a format does not exist, the file's folder does not, or a report must not be written there.
    """
    wanted = []
    for value in values:
        name, _, file = value.partition(":")
        check_format(name)
        if "\0" in file or (file and not Path(file).absolute().parent.is_dir()):
            raise UsageError(f"--report {value}: the folder {Path(file).parent} does not exist")
        one = Wanted(name, Path(file) if file else None, project if file else None)
        why = one.refusal(sources)
        if why:
            raise UsageError(f"--report {value}: {file} cannot be written, because {why}")
        wanted.append(one)
    return wanted


def check_format(name: str) -> None:
    """Raises UsageError for a format that does not exist."""
    from graphdoc.render import FORMATS

    if name not in FORMATS:
        raise UsageError(f"unknown report format {name!r}; the formats are {', '.join(FORMATS)}")


def _led_out(file: Path, project: Path) -> str:
    if not inside(file, project):
        return f"it lies outside {project}"
    below = os.path.relpath(os.path.realpath(file), os.path.realpath(project))
    return "a part of its path begins with a dot" if any(p.startswith(".") for p in below.split(os.sep)) else ""


def _replaceable(file: Path) -> bool:
    """Whether there is nothing at this place, an empty file, or a report."""
    from graphdoc.render import HEAD, is_report

    try:
        data = read_regular(file, HEAD)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return not data or is_report(data.decode("utf-8", "replace"))


def _same(file: Path, source: str) -> bool:
    try:
        return os.path.samefile(file, source)
    except (OSError, ValueError):
        return False
