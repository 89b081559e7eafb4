"""``[tool.graphdoc]`` of pyproject.toml: options that are put before those of the command line, which therefore wins.

    [tool.graphdoc]
    report = ["sarif:graphdoc.sarif"]   # left out where the command line names a report
    rerun = false
    nan = "off"
    audit = "all"
    strict = true
    check-gradients = true
    capture = "learned"
    verify-time = 120                   # of `graphdoc fix`, in seconds
    ignore = ["GD705"]                  # findings of a run that goes on
    baseline = "baseline.json"          # the evidence of a run; in the folder of the file
    root = "src"                        # files below it may be changed; in the folder of the file

Read from the nearest pyproject.toml upwards that has such a table, as far as the top of the repository. Such a file may
be a stranger's, in a cloned repository: what it names lies in its own folder, and its reports replace only reports.
"""

from __future__ import annotations

import re
import reprlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphdoc.cli.arguments import AUDITS, CAPTURES, NANS, WITH_VALUE, split
from graphdoc.errors import UsageError
from graphdoc.project import inside, settings_of

if TYPE_CHECKING:
    from graphdoc.cli.output import Wanted

_KINDS: dict[str, tuple[str, type | tuple[type, ...]]] = {
    "report": ("run", (str, list)),
    "rerun": ("run", bool),
    "nan": ("run", str),
    "audit": ("run", str),
    "strict": ("run", bool),
    "check-gradients": ("run", bool),
    "capture": ("run", str),
    "verify-time": ("fix", (int, float)),
    "ignore": ("", list),
    "baseline": ("run", str),
    "root": ("", str),
}
"""Of each setting the command whose option it is, if it is one, and what it may be."""
_CHOICES = {"nan": NANS, "audit": AUDITS, "capture": CAPTURES}


def with_settings(words: Sequence[str]) -> list[str]:
    """The command line with the project's settings in it, but for its reports, which no word of the user's names;
    ``run --show-settings`` prints them and ends the process.

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
    return [
        command,
        *(w for k, v in settings.items() if _KINDS[k][0] == command for w in _options(file, k, v)),
        *words[1:],
    ]


def reports(folder: Path) -> list[Wanted]:
    """The reports that the settings name, for someone who stands in ``folder``.

    Raises:
        UsageError: one cannot be written where they have it, or a setting is wrong.
    """
    file, settings = find(folder)
    return [] if file is None else _reports(file, settings)


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
        shown = reprlib.repr(value)  # however long or deep it is
        if key not in _KINDS:
            raise UsageError(f"{file}: there is no setting {reprlib.repr(key)}; the settings are {', '.join(_KINDS)}")
        kind = _KINDS[key][1]
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise UsageError(f"{file}: {key} cannot be {shown}")
        if key in _CHOICES and value not in _CHOICES[key]:
            raise UsageError(f"{file}: {key} is one of {', '.join(_CHOICES[key])}, not {shown}")
        if isinstance(value, list) and not all(isinstance(one, str) for one in value):
            raise UsageError(f"{file}: {key} cannot be {shown}")
        if isinstance(value, list) and key == "ignore":
            _check_codes(file, value)
        if isinstance(value, int | float) and key == "verify-time" and not value >= 1:
            raise UsageError(f"{file}: {key} is at least 1, not {shown}")
        if isinstance(value, str) and key in ("root", "baseline"):
            _check_place(file, key, value)


def _check_codes(file: Path, codes: Sequence[str]) -> None:
    from graphdoc.causes import entry

    for code in codes:
        if not re.fullmatch(r"GD\d{3}", code):
            raise UsageError(f"{file}: ignore takes codes such as GD705, not {reprlib.repr(code)}")
        if entry(code) is None:
            raise UsageError(f"{file}: there is no code {code} to ignore; `graphdoc causes` lists them all")


def _check_place(file: Path, key: str, place: str) -> None:
    there = file.parent / place
    if "\0" in place or not (there.is_dir() if key == "root" else there.exists()):
        raise UsageError(f"{file}: {key} names no {'folder' if key == 'root' else 'run'}: {reprlib.repr(place)}")
    if not inside(there, file.parent):
        raise UsageError(f"{file}: {key} leads out of {file.parent}: {reprlib.repr(place)}")


def _reports(file: Path, settings: dict[str, Any]) -> list[Wanted]:
    from graphdoc.cli.output import parse_reports

    value = settings.get("report", [])
    try:
        return parse_reports(value if isinstance(value, list) else [value], file.parent)
    except UsageError as e:
        raise UsageError(f"{file}: {e}") from e


def _options(file: Path | None, key: str, value: Any) -> list[str]:
    """A setting of this file as words of the command line."""
    if key == "report":
        return []
    if key == "baseline" and file is not None:
        value = file.parent / value
    return [f"--{'' if value else 'no-'}{key}"] if isinstance(value, bool) else [f"--{key}", str(value)]


def _show(file: Path | None, settings: dict[str, Any]) -> None:
    import json

    from graphdoc.cli.output import put

    if file is not None:
        _reports(file, settings)
    lines = [f"# {file}" if file is not None else "# no pyproject.toml here has [tool.graphdoc]"]
    put("\n".join([*lines, *(f"{key} = {json.dumps(value)}" for key, value in settings.items())]) + "\n", sys.stdout)
