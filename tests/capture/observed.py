"""Run a program plainly and under observation, in forks of this process, and read the evidence that it left."""

from __future__ import annotations

import sys
import textwrap
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from forked import Result, run_forked

from graphdoc.evidence import Evidence, Frame

PREFACE = "import torch\ntorch.manual_seed(0)\n"


@dataclass
class Observed:
    """How a program ended under observation, and what was written about it."""

    result: Result
    evidence: list[Evidence] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)

    @property
    def only(self) -> Evidence:
        assert len(self.evidence) == 1, f"{len(self.evidence)} evidence files\n{self.result.stderr}"
        return self.evidence[0]


def script(folder: Path, source: str) -> Path:
    """Write the program, with torch imported and seeded, to ``train.py``."""
    path = folder / "train.py"
    path.write_text(PREFACE + textwrap.dedent(source), encoding="utf-8")
    return path


def both(path: Path, args: tuple[str, ...] = ()) -> tuple[Result, Observed]:
    """The same program without and with observation; from one line, so that the frames below it are the same."""
    plain, seen = [run(path, args, mode) for mode in ("", "observe")]
    return plain.result, seen


def run(path: Path, args: tuple[str, ...] = (), mode: str = "observe", out: Path | None = None) -> Observed:
    """Run a program. ``out`` is where the evidence goes: a folder beside the program if it is not given."""
    folder = out if out is not None else path.parent / "evidence"
    if out is None:
        folder.mkdir(exist_ok=True)

    def setup() -> None:
        hook = sys.excepthook

        def remember(cls: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
            # The interpreter does this before it calls the hook; ``runpy`` does not.
            sys.last_value = error
            hook(cls, error, trace)

        sys.excepthook = remember
        if mode:
            from graphdoc.capture import install

            install(str(folder), mode)

    result = run_forked(path, args, setup=setup)
    files = sorted(folder.glob("evidence-*.json")) if folder.is_dir() else []
    troubles = [p.read_text() for p in folder.glob("trouble-*")] if folder.is_dir() else []
    return Observed(result, [Evidence.read(str(p)) for p in files], troubles)


def text_at(evidence: Evidence, frame: Frame) -> str:
    """The source text of the expression that a frame names."""
    line = evidence.sources[frame.file].splitlines()[frame.line - 1]
    return line[frame.column - 1 : frame.end_column - 1] if frame.line == frame.end_line else line.strip()


def made(evidence: Evidence, stack: list[Frame]) -> str:
    """The text of the user's innermost expression on a stack."""
    users = [f for f in stack if f.user]
    return text_at(evidence, users[-1]) if users else ""
