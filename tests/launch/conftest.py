"""Running the same program twice: by Python, and by Python under the start-up hook."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

# What `graphdoc run` does between reading its options and printing a report.
DRIVER = """
import os, sys
sys.path[:] = [p for p in sys.path if p]  # as the console script has it, not as -c has
from pathlib import Path
from graphdoc.launch import Request, end_like, launch
kind, out, *command = sys.argv[1:]
if "CHILD_PYTHONPATH" in os.environ:
    os.environ["PYTHONPATH"] = os.environ.pop("CHILD_PYTHONPATH")
ended = launch(Request(command, kind, cwd=os.getcwd()), Path(out))
Path(out, "ended.txt").write_text(repr(ended))
sys.exit(end_like(ended))
"""


@dataclass
class Pair:
    """Starts programs in a folder, with an environment of their own."""

    folder: Path
    out: Path
    env: dict[str, str]
    site: bool = False

    def plain(self, *words: str, kind: str = "script", flags: tuple[str, ...] = ()) -> list[str]:
        return [sys.executable, *flags, *(["-m"] if kind == "module" else []), *words]

    def observed(self, *words: str, kind: str = "script", flags: tuple[str, ...] = ()) -> list[str]:
        return [sys.executable, *flags, "-c", DRIVER, kind, str(self.out), *words]

    def run(
        self, command: list[str], stdin: bytes = b"", cwd: Path | None = None
    ) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            command, cwd=cwd or self.folder, env=self.env, input=stdin, capture_output=True, timeout=300, check=False
        )

    def both(
        self,
        *words: str,
        kind: str = "script",
        flags: tuple[str, ...] = (),
        stdin: bytes = b"",
        cwd: Path | None = None,
    ) -> tuple[subprocess.CompletedProcess[bytes], subprocess.CompletedProcess[bytes]]:
        plain = self.run(self.plain(*words, kind=kind, flags=flags), stdin, cwd)
        if self.site:
            # The parent is a Python too, and would run what lies there a first time.
            self.env["CHILD_PYTHONPATH"] = self.env.pop("PYTHONPATH")
        return plain, self.run(self.observed(*words, kind=kind, flags=flags), stdin, cwd)

    def start(self, command: list[str], **options: object) -> subprocess.Popen[bytes]:
        return subprocess.Popen(  # type: ignore[call-overload]
            command, cwd=self.folder, env=self.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options
        )

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    folder, out = tmp_path / "project", tmp_path / "out"
    folder.mkdir()
    out.mkdir()
    env = {k: v for k, v in os.environ.items() if not k.startswith(("GRAPHDOC_", "PYTHON", "COV_"))}
    return Pair(folder, out, env)
