"""The words of a command line: our options, which end where the program's begin, and those of ``pyproject.toml``."""

from __future__ import annotations

import re
import reprlib
import sys
from collections.abc import Container, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphdoc.errors import UsageError
from graphdoc.project import inside, settings_of

if TYPE_CHECKING:
    from graphdoc.cli.output import Wanted
    from graphdoc.launch import Kind


KIND = "graphdoc.kind"
"""Under this key the context of ``run`` keeps how the rest of the command line is to be read (a ``Kind``)."""
AUDITS = ("on", "off", "all")
NANS = ("report", "all", "stop", "off")
CAPTURES = ("full", "learned")
WITH_VALUE = frozenset({"--report", "--audit", "--nan", "--baseline", "--capture"})
"""Options of ``run`` that take the next word."""
_FLAGS: dict[str, dict[str, Any]] = {
    "--no-rerun": {"rerun": False},
    "--rerun": {"rerun": True},
    "--no-audit": {"audit": "off"},
    "--check-gradients": {"gradients": True},
    "--no-check-gradients": {"gradients": False},
    "--strict": {"strict": True},
    "--no-strict": {"strict": False},
}


def split(words: Sequence[str], with_value: Container[str]) -> tuple[list[str], Kind, list[str]]:
    """Our options, what kind of program follows, and its command line, every word of it untouched.

    The first word that is no option is a script, the word after ``-m`` a module, and what follows ``--`` a command.
    ``with_value`` are the options of ours that take the next word.
    """
    place = 0
    while place < len(words):
        word = words[place]
        if word == "--":
            return list(words[:place]), "command", list(words[place + 1 :])
        if word.startswith("-m"):
            module = [word[2:]] if word != "-m" else []
            return list(words[:place]), "module", module + list(words[place + 1 :])
        if word == "-" or not word.startswith("-"):
            return list(words[:place]), "script", list(words[place:])
        place += 2 if word in with_value else 1
    return list(words), "script", []


def split_anywhere(
    words: Sequence[str], with_value: Container[str], flags: Container[str]
) -> tuple[list[str], Kind, list[str]]:
    """The same where options of ours may also stand behind the program's name. The first ``--`` behind that name is
    not the program's; what follows it is, every word.
    """
    ours, kind, rest = split(words, with_value)
    if kind == "command":
        return ours, kind, rest
    program: list[str] = []
    while rest:
        word = rest.pop(0)
        name = word.partition("=")[0]
        if word == "--":
            program += rest
            break
        if program and name in with_value:
            ours += [word, *([rest.pop(0)] if name == word and rest else [])]
        elif program and word in flags:
            ours.append(word)
        else:
            program.append(word)
    return ours, kind, program


@dataclass(frozen=True)
class Asked:
    """How a user wants a program to be observed: the options of ``graphdoc run`` but its reports.

    ``nan`` is ``report`` (where the first nan or inf that reached the training came from, at the end), ``all`` (of any
    operation, with or without a backward call), ``stop`` (end the program there) or ``off``; ``audit`` is ``off``,
    ``on`` or ``all`` (weak findings too); ``strict`` makes any finding fail the run; ``gradients`` are to be measured;
    what the kept run ``baseline`` has as well is not told; ``capture`` is ``full``, or ``learned`` where steps like the
    last ones are not recorded.
    """

    rerun: bool = True
    nan: str = "report"
    audit: str = "on"
    strict: bool = False
    gradients: bool = False
    baseline: str = ""
    capture: str = "full"

    @property
    def mode(self) -> str:
        """The same in the words that the capture reads."""
        audit = {"off": ["no-audit"], "all": ["audit-all"]}.get(self.audit, [])
        nan = [] if self.nan == "report" else [f"nan-{self.nan}"]
        capture = [] if self.capture == "full" else [self.capture]
        return ":".join(["observe", *nan, *audit, *(["check-gradients"] if self.gradients else []), *capture])


def quick(words: Sequence[str]) -> tuple[Kind, list[str], list[str], Asked] | None:
    """What ``graphdoc run`` is asked for, read without typer, whose import would take longer than all else we do.

    Returns the kind, the program's words, the values of ``--report``, and the other options; None for any other command
    and for every line that is not plainly right, which typer shall then judge.
    """
    if not words or words[0] != "run":
        return None
    ours, kind, program = split(words[1:], WITH_VALUE)
    reports: list[str] = []
    asked = Asked()
    while ours:
        word, given, value = ours.pop(0).partition("=")
        if word in WITH_VALUE and not given:
            if not ours:
                return None
            value = ours.pop(0)
        elif given and word not in WITH_VALUE:
            return None
        if word == "--report":
            reports.append(value)
        elif word == "--audit" and value in AUDITS:
            asked = replace(asked, audit=value)
        elif word == "--nan" and value in NANS:
            asked = replace(asked, nan=value)
        elif word == "--capture" and value in CAPTURES:
            asked = replace(asked, capture=value)
        elif word == "--baseline" and value:
            asked = replace(asked, baseline=value)
        elif word in _FLAGS:
            asked = replace(asked, **_FLAGS[word])
        else:
            return None
    if not program:
        return None
    return kind, program, reports, asked


def plain(words: Sequence[str], default: str) -> tuple[str | None, str] | None:
    """The one argument of a command, if it has any, and its ``--format``, read without typer for the same reason.

    None for every other line: one with further options or words, or with an option whose value is missing.
    """
    argument: str | None = None
    fmt = default
    left = list(words)
    while left:
        word = left.pop(0)
        if word == "--format" and left:
            fmt = left.pop(0)
        elif argument is None and (word == "-" or not word.startswith("-")):
            argument = word
        else:
            return None
    return argument, fmt


# ``[tool.graphdoc]`` of pyproject.toml (docs/settings.md): options that are put before those of the command line, which
# therefore wins. Read from the nearest pyproject.toml upwards that has such a table, as far as the top of the
# repository. Such a file may be a stranger's, in a cloned repository: what it names lies in its own folder, and its
# reports replace only reports.


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
