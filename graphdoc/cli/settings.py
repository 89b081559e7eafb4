"""``[tool.graphdoc]`` of pyproject.toml: options that are put before those of the command line, which therefore wins.

    [tool.graphdoc]
    report = ["sarif:graphdoc.sarif"]   # left out where the command line names a report
    rerun = false
    nan = "off"
    audit = "all"
    strict = true
    verify-time = 120                   # of `graphdoc fix`, in seconds
    root = "src"                        # files below it may be changed; from the folder of the file

Read from the nearest pyproject.toml upwards that has such a table, as far as the top of the repository.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from graphdoc.cli.arguments import AUDITS, NANS, WITH_VALUE, split
from graphdoc.errors import UsageError
from graphdoc.project import settings_of

_KINDS: dict[str, tuple[str, type | tuple[type, ...]]] = {
    "report": ("run", (str, list)),
    "rerun": ("run", bool),
    "nan": ("run", str),
    "audit": ("run", str),
    "strict": ("run", bool),
    "verify-time": ("fix", (int, float)),
    "root": ("", str),
}
"""Of each setting the command whose option it is, if it is one, and what it may be."""
_CHOICES = {"nan": NANS, "audit": AUDITS}


def with_settings(words: Sequence[str]) -> list[str]:
    """The command line with the project's settings in it; ``run --show-settings`` prints them and ends the process.

    Raises:
        UsageError: a setting does not exist or has a value that it cannot have.
    """
    command = words[0] if words else ""
    if command not in ("run", "fix"):
        return list(words)
    file, settings = find(Path.cwd())
    ours = split(words[1:], WITH_VALUE)[0] if command == "run" else list(words[1:])
    if command == "run" and "--show-settings" in ours:
        _show(file, settings)
        sys.exit(0)
    if any(word.partition("=")[0] == "--report" for word in ours):
        settings = {key: value for key, value in settings.items() if key != "report"}
    return [command, *(w for k, v in settings.items() if _KINDS[k][0] == command for w in _options(k, v)), *words[1:]]


def find(folder: Path) -> tuple[Path | None, dict[str, Any]]:
    """The file that has the settings for someone who stands in ``folder``, and the settings.

    Raises:
        UsageError: it cannot be read as TOML, or a setting is wrong.
    """
    file, table = settings_of(folder)
    if file is not None:
        _check(file, table)
    return file, table


def _check(file: Path, table: dict[str, Any]) -> None:
    for key, value in table.items():
        if key not in _KINDS:
            raise UsageError(f"{file}: there is no setting {key!r}; the settings are {', '.join(_KINDS)}")
        kind = _KINDS[key][1]
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise UsageError(f"{file}: {key} cannot be {value!r}")
        if key in _CHOICES and value not in _CHOICES[key]:
            raise UsageError(f"{file}: {key} is one of {', '.join(_CHOICES[key])}, not {value!r}")
        if isinstance(value, list) and not all(isinstance(one, str) for one in value):
            raise UsageError(f"{file}: {key} cannot be {value!r}")
        if isinstance(value, int | float) and key == "verify-time" and not value >= 1:
            raise UsageError(f"{file}: {key} is at least 1, not {value!r}")
        if isinstance(value, str) and key == "root" and not (file.parent / value).is_dir():
            raise UsageError(f"{file}: {key} names no folder: {value!r}")


def _options(key: str, value: Any) -> list[str]:
    """A setting as words of the command line."""
    if isinstance(value, bool):
        return [f"--{'' if value else 'no-'}{key}"]
    values = value if isinstance(value, list) else [value]
    return [word for one in values for word in (f"--{key}", str(one))]


def _show(file: Path | None, settings: dict[str, Any]) -> None:
    import json

    from graphdoc.cli.output import check_format, put

    for word in _options("report", settings.get("report", []))[1::2]:
        check_format(word.partition(":")[0])
    lines = [f"# {file}" if file is not None else "# no pyproject.toml here has [tool.graphdoc]"]
    put("\n".join([*lines, *(f"{key} = {json.dumps(value)}" for key, value in settings.items())]) + "\n", sys.stdout)
