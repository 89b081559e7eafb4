"""The programs of ``fixtures/``, with what is expected of each, for every test that runs them."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures"


@dataclass(frozen=True)
class Program:
    """One folder of ``fixtures/``; the fields are those of its expect.toml, explained in fixtures/README.md."""

    name: str
    folder: Path
    title: str
    seed: str
    program: str
    outcome: str
    error: str
    cause: tuple[str, ...]
    lines: tuple[str, ...]
    names: tuple[str, ...]
    backwards: tuple[str, ...]
    steps: tuple[str, ...]
    notes: str
    fix: dict[str, str]

    @property
    def path(self) -> Path:
        return self.folder / self.program

    @property
    def source(self) -> str:
        return self.path.read_text()

    @property
    def fixed(self) -> tuple[Path, ...]:
        """The hand-written right versions, the usual one first."""
        return tuple(sorted(self.folder.glob("fixed*.py")))

    def line_numbers(self, text: str) -> list[int]:
        """The numbers, from 1, of the program's lines that read ``text`` once stripped."""
        return [number for number, line in enumerate(self.source.splitlines(), 1) if line.strip() == text]


@cache
def programs() -> tuple[Program, ...]:
    """Every program of ``fixtures/``, by name."""
    return tuple(_load(path) for path in sorted(FIXTURES.glob("*/expect.toml")))


def program(name: str) -> Program:
    return next(p for p in programs() if p.name == name)


def final_parameters(stdout: str) -> list[float]:
    """The fingerprints that a program prints at its end: one sum of absolute values for each network."""
    words = [word for line in stdout.splitlines() if line.startswith("parameters ") for word in line.split()[1:]]
    return [float(word) for word in words if word[0].isdigit() or word in ("nan", "inf")]


def _load(path: Path) -> Program:
    data = tomllib.loads(path.read_text())
    fields: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in data.items()}
    fields.setdefault("fix", {})
    return Program(name=path.parent.name, folder=path.parent, **fields)
