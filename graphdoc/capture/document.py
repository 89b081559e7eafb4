"""Starting and writing this process's Evidence document."""

from __future__ import annotations

import hashlib
import os
import platform
import sys
import time
from typing import TYPE_CHECKING, Any

from graphdoc.capture.marks import leave
from graphdoc.capture.places import is_user_file
from graphdoc.evidence import Evidence, Frame, Holder, Process

if TYPE_CHECKING:
    from graphdoc.capture.witness import Witness

MOST_SOURCE = 1_000_000
"""Bytes of one source file that is embedded; a larger one is only hashed."""
MOST_FILES = 300


def _number(name: str, default: int) -> int:
    try:
        return int(os.environ.get(name, ""))
    except ValueError:
        return default


def start_document(witness: Witness) -> Evidence:
    """A document with everything known about the process itself."""
    evidence = Evidence()
    evidence.process = Process(
        pid=os.getpid(),
        # The names that torchrun and every launcher after it give to ranks.
        rank=_number("RANK", -1),
        world_size=_number("WORLD_SIZE", 1),
        local_rank=_number("LOCAL_RANK", -1),
        argv=list(getattr(sys, "argv", [])),
        cwd=witness.cwd,
        python=platform.python_version(),
        torch=str(witness.torch.__version__).partition("+")[0],
        started=witness.started,
        written=time.time(),
    )
    evidence.capture = witness.capture
    evidence.degraded = list(witness.degraded)
    evidence.warnings = list(witness.warnings)
    evidence.probe = witness.mode if witness.mode.startswith("probe") else ""
    return evidence


def write_document(witness: Witness, evidence: Evidence) -> None:
    """Write ``evidence-<pid>.json`` into the run's folder, atomically, with the sources that its frames name.

    Raises:
        OSError: it cannot be written; that it is lost is left for the parent to see.
    """
    evidence.process.written = time.time()
    evidence.seconds = time.time() - witness.started
    _add_sources(evidence)
    try:
        evidence.write(os.path.join(witness.out, f"evidence-{os.getpid()}.json"))
    except BaseException:
        leave(witness.out, "lost")
        raise


def _add_sources(evidence: Evidence) -> None:
    for file in _files(evidence):
        if len(evidence.hashes) >= MOST_FILES:
            break
        if file in evidence.hashes:
            continue
        path = os.path.join(evidence.process.cwd, file)
        try:
            if not is_user_file(path) or not os.path.isfile(path):
                continue  # a pipe has given its text to Python, and a FIFO would wait for another writer
            with open(path, "rb") as f:
                data = f.read()
        except (OSError, ValueError):
            continue
        evidence.hashes[file] = hashlib.sha256(data).hexdigest()
        if len(data) <= MOST_SOURCE:
            evidence.sources[file] = decode(data)


def decode(data: bytes) -> str:
    """Source bytes as text, in the encoding that the file itself declares (PEP 263), line endings kept."""
    import io
    import tokenize

    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        return data.decode(encoding)
    except (SyntaxError, UnicodeDecodeError, LookupError):
        return data.decode("utf-8", "replace")


def _files(evidence: Evidence) -> dict[str, None]:
    """Every file of the user's that the document names: in frames, in the plain ones of ``extras``, in holders."""
    out: dict[str, None] = {}

    def collect(value: Any) -> None:
        if isinstance(value, list):
            for v in value:
                collect(v)
        elif isinstance(value, dict):
            if isinstance(value.get("file"), str) and isinstance(value.get("line"), int) and value.get("user", True):
                out[value["file"]] = None
            for v in value.values():
                collect(v)
        elif hasattr(value, "__dataclass_fields__"):
            if isinstance(value, Holder) or (isinstance(value, Frame) and value.user):
                out[value.file] = None
            for name in value.__dataclass_fields__:
                collect(getattr(value, name))

    collect(evidence)
    out.pop("", None)
    return out
