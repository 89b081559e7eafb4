"""One failure on many ranks: the first one tells it whole, the others say briefly where they were.

A job of thousands of ranks fails on all of them at once, and all write into one folder. The first that fails in a way
(same exception, same places) leaves ``first-<digest>`` there with its name in it; who finds another's name, and that
one's evidence beside it, writes only the head of its own.
"""

from __future__ import annotations

import hashlib
import os
import re

from graphdoc.capture.marks import process_name
from graphdoc.evidence import Evidence

LAST_EVENTS = 3
"""Journal entries that a brief document keeps: the last call that worked, and what came after it."""


def told_by(out: str, evidence: Evidence, ending: bool) -> str:
    """The process that tells this very failure whole in this folder, or an empty string: then this one is to.

    While the process goes on (not ``ending``), a claim will do. At its end that one's file has to be there: it may have
    been killed before it could write.
    """
    process, raised = evidence.process, evidence.raised
    if process.rank < 0 or process.world_size < 2 or raised is None or not raised.stack:
        return ""
    places = [(f.file, f.line) for f in raised.stack if f.user]
    words = repr((raised.type, re.sub(r"\d+", "#", raised.message[:4000]), places))
    claim = os.path.join(out, f"first-{hashlib.sha256(words.encode('utf-8', 'replace')).hexdigest()[:16]}")
    own = process_name()
    try:
        handle = os.open(claim, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        teller = _read(claim)
    except OSError:
        return ""
    else:
        try:
            os.write(handle, own.encode())
        except OSError:
            pass  # a full disk: the others will not find our file either
        finally:
            os.close(handle)
        return ""
    if teller == own or (ending and not os.path.exists(os.path.join(out, f"evidence-{teller}.json"))):
        return ""
    return teller or "another"


def brief(evidence: Evidence, teller: str) -> Evidence:
    """What is written of a process whose failure ``teller`` tells: who it is, what it met and where, nothing else."""
    return Evidence(
        process=evidence.process,
        command=evidence.command,
        capture=evidence.capture,
        exit_status=evidence.exit_status,
        seconds=evidence.seconds,
        raised=evidence.raised,
        events=evidence.events[-LAST_EVENTS:],
        extras={"told_by": teller},
    )


def _read(claim: str) -> str:
    try:
        with open(claim, encoding="utf-8", errors="replace") as stream:
            return stream.read(300)
    except OSError:
        return ""
