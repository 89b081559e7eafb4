"""The inventory of what PyTorch says about autograd, taken from PyTorch itself.

    python tests/messages/inventory.py PACKAGE...     (a folder that holds torch/: site-packages, an unpacked wheel)

Reads every check, raise and warning of autograd and its neighbours out of the Python sources, and the strings of the
shared libraries, and adds what it finds to ``inventory.jsonl`` beside this file. What a new release adds or rewords
shows as new lines in the diff, what it drops keeps an older ``last``. To begin anew, remove the file and name all the
supported versions, oldest first.

The file kept here is of the CPU builds of 2.6.0 and 2.15.0 for macOS (their wheels are the smallest) and of 2.13.0 for
Linux: the Python sources are the same on every platform, what only the CUDA libraries say is missing.
"""

from __future__ import annotations

import json
import re
import sys
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from inventory_libraries import messages_in
from inventory_sources import messages_of

FILE = Path(__file__).with_name("inventory.jsonl")

# What the text of a message has to speak of, where it does not stand in a part of torch that is all autograd's.
WANTED = re.compile(
    r"(?i)\bgrad|grad\b|_grad|gradient|\bautograd|auto.?diff|backward|differentia|\bderivative|"
    r"\bleaf\b|(?<![.\w])in-?place operation|inference tensor|inference mode|saved (?:tensor|variable)|double backward|"
    r"\bjvp\b|\bvjp\b|\bvmap\b|\bdual (?:tensor|number|level)|forward(?:-mode)? AD\b|forward.mode|version counter|"
    r"\bcheckpoint\(|use_reentrant|GradScaler|loss scal|DistributedDataParallel|\bDDP\b|\bFSDP|\breducer\b|"
    r"optimizer\.step|\boptimizer\b|AccumulateGrad|\bbackprop"
)


@dataclass(frozen=True, order=True)
class Message:
    """One message: a template with ``⟨expression⟩`` for what is put in, where it stands, and who has it.

    ``where`` are the places, ``file:function`` or the name of a library; ``first`` and ``last`` are the oldest and the
    newest version of torch that were looked at and hold it.
    """

    text: str
    kind: str
    exception: str
    where: tuple[str, ...]
    first: str
    last: str


def read(path: Path = FILE) -> list[Message]:
    """The inventory as it is kept."""
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").splitlines()
    return [Message(**{**item, "where": tuple(item["where"])}) for item in map(json.loads, lines)]


def write(messages: list[Message], path: Path = FILE) -> None:
    """Keep the inventory: sorted by place, one line each, so that a diff shows what a release has changed."""
    ordered = sorted(messages, key=lambda m: (m.where[0], m.text))
    lines = (json.dumps(asdict(m), ensure_ascii=False) for m in ordered)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def version_of(package: Path) -> str:
    """Major and minor version of the torch below ``package``, as 2.13."""
    text = (package / "torch" / "version.py").read_text(encoding="utf-8")
    found = re.search(r"__version__ = '(\d+\.\d+)", text)
    if found is None:
        raise SystemExit(f"{package}: no version in torch/version.py")
    return found.group(1)


def collect(package: Path, libraries: bool = True) -> list[Message]:
    """Everything that the torch below ``package`` can say about autograd, each text once, with all its places."""
    version = version_of(package)
    first: dict[str, tuple[str, str]] = {}
    places: dict[str, set[str]] = {}
    for found in messages_of(package, WANTED):
        first.setdefault(found.text, (found.kind, found.exception))
        places.setdefault(found.text, set()).add(found.where)
    for text, library in messages_in(package, WANTED) if libraries else ():
        first.setdefault(text, ("text", ""))
        places.setdefault(text, set()).add(library)
    return [Message(t, *first[t], tuple(sorted(places[t])), version, version) for t in first]


def merged(old: list[Message], new: list[Message]) -> list[Message]:
    """Both, each text once, with the places of the newer one and the span of versions that hold it."""
    whole = {m.text: m for m in old}
    for m in new:
        known = whole.get(m.text, m)
        versions = sorted({known.first, known.last, m.first, m.last}, key=_number)
        newest = m if m.last == versions[-1] else known
        whole[m.text] = replace(newest, first=versions[0], last=versions[-1])
    return list(whole.values())


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def main(arguments: list[str]) -> int:
    if not arguments:
        raise SystemExit(__doc__)
    messages = read()
    for package in arguments:
        found = collect(Path(package))
        messages = merged(messages, found)
        print(f"{package}: torch {version_of(Path(package))}, {len(found)} messages; {len(messages)} in all")
    write(messages)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
