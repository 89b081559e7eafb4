"""Starting and writing this process's Evidence document, with the packages on its stacks; one rank tells for all."""

from __future__ import annotations

import hashlib
import inspect
import os
import platform
import re
import sys
import time
from collections.abc import Iterator
from importlib import metadata
from typing import TYPE_CHECKING, Any

from graphdoc.capture.places import code_places
from graphdoc.capture.places.code_places import installed_below, is_user_file, lines_of, shown_file
from graphdoc.capture.places.source_texts import MOST_FILES, add_source
from graphdoc.capture.process.marks import leave, process_name
from graphdoc.documents import digest
from graphdoc.evidence import THINNED, Evidence, Frame, Holder, Package, Process
from graphdoc.files import make_spare
from graphdoc.redaction import redact_document

if TYPE_CHECKING:
    from graphdoc.capture.witness import Witness


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
        argv=list(getattr(sys, "argv", [])),
        cwd=witness.cwd,
        python=platform.python_version(),
        torch=str(witness.torch.__version__).partition("+")[0],
        written=time.time(),
    )
    evidence.capture = witness.capture
    evidence.degraded = list(witness.degraded)
    evidence.warnings = list(witness.warnings)
    if witness.learned is not None and witness.learned.since >= 0:
        evidence.extras[THINNED] = {"since": witness.learned.since}
    evidence.probe = witness.mode if witness.mode.startswith("probe") else ""
    return evidence


def write_document(witness: Witness, evidence: Evidence, ending: bool = True) -> None:
    """Write ``evidence-<name>.json`` into the run's folder, atomically, with the sources that its frames name.

    Of a rank whose failure another one tells, only who it is and where it was. Not ``ending``: the program may go on.

    Where that takes nothing (a disk that has filled up, a folder that the program has deleted), it is written to the
    place that stands in for it, if this is the user's own run and not one of ours.

    Raises:
        OSError: it cannot be written; that it is lost is left for the parent to see.
    """
    evidence.process.written = time.time()
    evidence.seconds = time.time() - witness.started
    teller = told_by(witness.out, evidence, ending) if witness.mode.startswith("observe") else ""
    if not teller:
        _add_sources(evidence, not witness.mode.startswith("verify"))  # a trial runs another text on purpose
        add_packages(evidence)
    name = f"evidence-{process_name()}.json"
    data = redact_document(brief(evidence, teller) if teller else evidence, os.environ)
    try:
        try:
            evidence.write(os.path.join(witness.out, name), data)
        except OSError:
            if not witness.mode.startswith("observe"):
                raise
            evidence.write(os.path.join(make_spare(witness.out), name), data)
    except BaseException:
        leave(witness.out, "lost")
        raise


def _add_sources(evidence: Evidence, check: bool) -> None:
    for file in _files(evidence):
        if len(evidence.hashes) >= MOST_FILES:
            break
        if file in evidence.hashes:
            continue
        cell = code_places.text_of(file)
        if cell is not None:
            evidence.sources[file] = cell
            evidence.hashes[file] = digest(cell.encode("utf-8", "surrogatepass"))
            evidence.extras.setdefault("cells", []).append(file)
            continue
        path = os.path.join(evidence.process.cwd, file)
        if is_user_file(path) and (os.path.isfile(path) or not os.path.exists(path)):  # a FIFO would wait for a writer
            add_source(evidence, file, path, check=check)


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


# One failure on many ranks: the first one tells it whole, the others say briefly where they were. A job of thousands
# of ranks fails on all of them at once, and all write into one folder. The first that fails in a way (same exception,
# same places) leaves ``first-<digest>`` there with its name in it; who finds another's name, and that one's evidence
# beside it, writes only the head of its own.

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


# Installed packages on the stacks: which distribution a file belongs to, its version, and the lines that matter. Read
# when the document is written, from the installer's own records beside the package: ``RECORD`` lists the files of a
# distribution (https://packaging.python.org/en/latest/specifications/recording-installed-packages/). Nothing is
# imported.

MOST_PACKAGES = 60
"""Folders of packages, and folders within these, that are looked up."""
MOST_DISTRIBUTIONS = 2_000
MOST_LINES = 200
"""Lines of one function that are kept; of a longer one those around what it was doing."""
_NOT_TOLD = ("torch", "torchgen", "functorch")
"""PyTorch itself is what the report is about: its frames are told as operations."""


def add_packages(evidence: Evidence) -> None:
    """Fill ``evidence.packages`` from the frames that are not the user's; what went wrong is told in ``degraded``."""
    try:
        evidence.packages = _packages_of(evidence)
    except Exception as e:
        evidence.degraded.append(f"installed packages on the stacks were not looked up: {type(e).__name__}: {e}")


def _packages_of(evidence: Evidence) -> list[Package]:
    known: dict[tuple[str, ...], Package] = {}
    texts: dict[str, list[str]] = {}
    told: set[tuple[str, int]] = set()
    for stack in _stacks(evidence):
        works = True  # the innermost frame, or one that calls into PyTorch or Python
        for frame in reversed(stack):
            path = os.path.join(evidence.process.cwd, frame.file)
            found = None if frame.user else installed_below(path)
            inner = found[1] if found is not None else ""
            top = inner.partition("/")[0].removesuffix(".py")
            if found is None or top in _NOT_TOLD:
                works = True
                continue
            at = (frame.file, frame.line)
            # Several distributions may share a folder: a namespace (PEP 420).
            key = (found[0], *inner.split("/")[:2])
            package = None if at in told else known.get(key)
            if package is None and at not in told and len(known) < MOST_PACKAGES:
                new = _package_of(found[0], top, inner)
                new.folder = shown_file(found[0], evidence.process.cwd)
                package = known[key] = next((p for p in known.values() if p.told == new.told), new)
            if package is not None and frame.file not in package.files:
                package.files.append(frame.file)
            if package is not None and works:
                told.add(at)
                if frame.file not in texts:
                    texts[frame.file] = lines_of(path)
                _keep_lines(package, frame, texts[frame.file])
            works = False
    return list({id(p): p for p in known.values()}.values())


def _stacks(evidence: Evidence) -> Iterator[list[Frame]]:
    """The stacks that can be told: of writes, nodes, cuts, what was raised, and the call that failed."""
    for stale in evidence.stale:
        yield from (w.stack for w in stale.writes)
    yield from (n.stack for n in evidence.nodes)
    for cut in evidence.cuts:
        yield from (cut.stack, cut.before, cut.switch)
    if evidence.raised is not None:
        yield evidence.raised.stack
    yield from (e.stack for e in evidence.events if e.index == evidence.failing_event)
    for sign in evidence.signs:  # of the functions that gave the first value that was not finite
        for record in (sign.facts.get("look") or {}).get("chain") or ():
            yield [Frame(**f) for f in record.get("called") or ()]


def _package_of(folder: str, top: str, inner: str) -> Package:
    """The distribution that installed ``inner`` (a path below ``folder``); by its module alone where none says so."""
    try:
        named = list(metadata.Distribution.discover(name=top, path=[folder]))
        every = metadata.distributions(path=[folder])
        for count, found in enumerate((*named, *every)):
            if count > MOST_DISTRIBUTIONS:
                break
            record = found.read_text("RECORD") or found.read_text("SOURCES.txt") or ""
            # A path with a comma or a quote is quoted in the record: such a module is told by its name alone.
            listed = f"\n{inner}," in f"\n{record}" or f"\n{inner}\n" in f"\n{record}\n"
            # A system's own packages (Debian) have no record, only the names of their modules.
            if listed or (not record and top in (found.read_text("top_level.txt") or "").split()):
                return Package(str(found.metadata["Name"] or top), str(found.version or ""))
    except Exception:
        pass
    version = getattr(sys.modules.get(top), "__dict__", {}).get("__version__", "")
    return Package(top, version if isinstance(version, str) else "")


def _keep_lines(package: Package, frame: Frame, lines: list[str]) -> None:
    """Keep the function around a frame, at its own line numbers: what it was doing there is told, and why."""
    if not 1 <= frame.line <= len(lines):
        return
    kept = package.sources.setdefault(frame.file, {})
    if str(frame.line) in kept:
        return
    first, last = _function(lines, frame)
    for number in range(first, last + 1):
        kept[str(number)] = lines[number - 1].rstrip("\r\n")


def _function(lines: list[str], frame: Frame) -> tuple[int, int]:
    """First and last line of the function that a frame is in, by its name and indentation."""
    name = re.compile(rf"\s*(?:async\s+)?def\s+{re.escape(frame.function.rpartition('.')[2])}\b")
    around = max(1, frame.line - 2), min(len(lines), max(frame.end_line, frame.line) + 2)
    for first in range(frame.line, max(0, frame.line - MOST_LINES), -1):
        if name.match(lines[first - 1]) is None:
            continue
        length = min(len(inspect.getblock(lines[first - 1 :])), MOST_LINES)
        return first, max(first - 1 + length, frame.end_line)
    return around
