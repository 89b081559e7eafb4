"""Telling our options from the program's: ours end where the program's command line begins."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from graphdoc.launch import Kind

KIND = "graphdoc.kind"
"""Under this key the context of ``run`` keeps how the rest of the command line is to be read (a ``Kind``)."""


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


def quick(words: Sequence[str]) -> tuple[Kind, list[str], list[str], bool, bool] | None:
    """What ``graphdoc run`` is asked for, read without typer, whose import would take longer than all else we do.

    Returns the kind, the program's words, the values of ``--report``, and whether ``--no-rerun`` and ``--nan`` are
    there; None for any other command and for every line that is not plainly right, which typer shall then judge.
    """
    if not words or words[0] != "run":
        return None
    ours, kind, program = split(words[1:], {"--report"})
    reports: list[str] = []
    flags: set[str] = set()
    while ours:
        word = ours.pop(0)
        if word == "--report" and ours:
            reports.append(ours.pop(0))
        elif word.startswith("--report="):
            reports.append(word.removeprefix("--report="))
        elif word in ("--no-rerun", "--nan"):
            flags.add(word)
        else:
            return None
    if not program:
        return None
    return kind, program, reports, "--no-rerun" in flags, "--nan" in flags
