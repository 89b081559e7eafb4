"""The command line as a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def graphdoc(
    folder: Path | None, *words: str, flags: tuple[str, ...] = (), given: str = "", **variables: str
) -> subprocess.CompletedProcess[str]:
    """``python FLAGS -m graphdoc WORDS`` in a folder, with ``given`` to read, away from a CI these tests may run in."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("GITHUB_", "GRAPHDOC_", "FORCE_COLOR"))}
    return subprocess.run(
        [sys.executable, *flags, "-m", "graphdoc", *words],
        cwd=folder,
        env={**env, **variables},
        input=given,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
