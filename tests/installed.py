"""Small packages as an installer leaves them: a folder on ``sys.path`` with the distribution's records beside it."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

ON_PATH = 'import sys\n\nsys.path.insert(0, "site-packages")\n'
"""First lines of a program in whose folder packages were installed."""


def install(folder: Path, distribution: str, version: str, files: dict[str, str], into: str = "site-packages") -> Path:
    """Install a distribution into ``folder/site-packages``, or another folder there (``pip install --target``).

    Args:
        files: texts by path below that folder.

    Returns:
        that folder.
    """
    site = folder / into
    for path, text in files.items():
        (site / path).parent.mkdir(parents=True, exist_ok=True)
        (site / path).write_text(dedent(text))
    info = site / f"{distribution.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n")
    (info / "INSTALLER").write_text("pip\n")
    record = [f"{path},," for path in (*files, f"{info.name}/METADATA", f"{info.name}/RECORD")]
    (info / "RECORD").write_text("\n".join(record) + "\n")
    return site
