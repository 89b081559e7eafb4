"""Installed packages on the stacks: which distribution a file belongs to, its version, and the lines that matter.

Read when the document is written, from the installer's own records beside the package: ``RECORD`` lists the files of a
distribution (https://packaging.python.org/en/latest/specifications/recording-installed-packages/). Nothing is imported.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from importlib import metadata

from graphdoc.capture.code_places import installed_below, lines_of, shown_file
from graphdoc.evidence import Evidence, Frame, Package

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
    name = re.compile(rf"(\s*)(?:async\s+)?def\s+{re.escape(frame.function.rpartition('.')[2])}\b")
    last = max(frame.end_line, frame.line)
    around = max(1, frame.line - 2), min(len(lines), last + 2)
    for first in range(frame.line, max(0, frame.line - MOST_LINES), -1):
        found = name.match(lines[first - 1])
        if found is None:
            continue
        indent = len(found[1].expandtabs())
        while last < len(lines) and last < first + MOST_LINES:
            text = lines[last]
            depth = len(text.expandtabs()) - len(text.expandtabs().lstrip())
            if text.strip() and depth <= indent and not text.lstrip().startswith((")", "#")):
                break
            last += 1
        while last > frame.end_line and not lines[last - 1].strip():
            last -= 1
        return first, max(last, frame.end_line)
    return around
