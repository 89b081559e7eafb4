"""Telling our options from the program's: ours end where the program's command line begins."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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
