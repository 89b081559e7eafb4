"""The list of what PyTorch says about autograd and its neighbours, taken from PyTorch itself.

    python tests/messages/inventory.py PACKAGE     (a folder that holds torch/: site-packages, an unpacked wheel)

Reads every raise, check and warning of autograd and its neighbours out of the Python sources, and the strings of the
shared libraries, and writes them to ``graphdoc/messages/listed.txt``. What a new release adds or rewords shows in the
diff. A message there is recognised without more; its cause and what it means are written in ``patterns.json``.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from inventory_libraries import messages_in
from inventory_sources import messages_of

from graphdoc.messages.recognise import FEW_WORDS

FILE = Path(__file__).parents[2] / "graphdoc" / "messages" / "listed.txt"
_LONGEST = 170
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
_QUOTED = re.compile(r"(['\"]).*?\1")
# What torch says in the words of Python's own modules.
_IMITATED = re.compile(r"attempted relative import|un\(deep\)copyable object")
# Words of an expression that do not name the value.
_NO_NAME = re.compile(
    r"self|cls|str|len|type|repr|int|list|tuple|sorted|format|join|for|in|if|else|not|is|None|__\w+__|x|i"
)

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
    """One message: a template with ``⟨name⟩`` for what is put in, and where it stands: a file, or a library's name."""

    place: str
    text: str
    exception: str


def version_of(package: Path) -> str:
    """The version of the torch below ``package``, as 2.13.0."""
    text = (package / "torch" / "version.py").read_text(encoding="utf-8")
    found = re.search(r"__version__ = '(\d+\.\d+\.\d+)", text)
    if found is None:
        raise SystemExit(f"{package}: no version in torch/version.py")
    return found.group(1)


def collect(package: Path, libraries: bool = True) -> list[Message]:
    """Everything that the torch below ``package`` can say about autograd and its neighbours."""
    found: dict[tuple[str, str], Message] = {}
    for one in messages_of(package, WANTED):
        place = one.where.partition(":")[0]
        if not _is_for_users(place, one.exception, one.text):
            continue
        message = Message(place, template(one.text), one.exception)
        found.setdefault((message.place, message.text), message)
    for text, library in messages_in(package, WANTED) if libraries else ():
        message = Message(library, template(text), "RuntimeError")
        found.setdefault((library, message.text), message)
    return sorted(found.values())


def _is_for_users(place: str, exception: str, text: str) -> bool:
    """Whether it is not one of the compiler's checks of itself, nor one of Python's own that it imitates."""
    if place.startswith(("torch/_dynamo/polyfills/", "torch/_numpy/")) or _IMITATED.match(text):
        return False
    return not (place.startswith("torch/_dynamo/") and exception == "AssertionError" and not WANTED.search(text))


def template(text: str) -> str:
    """The text as the list keeps it: each field by a short name, the end of a very long one left out."""
    names: Counter[str] = Counter()

    def field(found: re.Match[str]) -> str:
        words = [w for w in _IDENTIFIER.findall(_QUOTED.sub("", found.group(1))) if not _NO_NAME.fullmatch(w)]
        name = words[-1] if words else "value"
        names[name] += 1
        return f"⟨{name}{names[name] if names[name] > 1 else ''}⟩"

    text = re.sub(r"⟨([^⟩]*)⟩", field, text)
    text = re.sub(r"(?:⟨[^⟩]*⟩){2,}", lambda m: m.group().partition("⟩")[0] + "⟩", text)
    if len(text) > _LONGEST:
        text = text[: text.rfind(" ", 0, _LONGEST)]
        if text.rfind("⟨") > text.rfind("⟩"):
            text = text[: text.rfind("⟨")]
    return text.strip()


# Words that stand fast: with fewer of them other programs print the same, and only the traceback tells whose they are.
_LETTERS, _WORDS, _RUN = 24, 4, 12
# A name of PyTorch's own tells it in fewer.
_LETTERS_WITH_NAME = 12
_NAME = re.compile(
    r"[a-z]\w*_\w+|[a-z0-9][A-Z]|\b[A-Z]{2,}[a-z]|"
    r"(?i:grad|torch|autocast|tensor|vmap|microbatch|placement|mesh|shard|backward|dtype|\brank)"
)
_WORDLIKE = re.compile(r"[A-Za-z]{2,}")


def known_by_words(text: str) -> bool:
    """Whether these words are PyTorch's alone. A rule on the amount of text, as no list could name all programs."""
    parts = re.split(r"⟨[^⟩]*⟩", text)
    words = " ".join(parts)
    letters = sum(map(str.isalpha, words))
    if letters >= _LETTERS_WITH_NAME and _NAME.search(words):
        return len(_WORDLIKE.findall(words)) >= 3
    return letters >= _LETTERS and len(_WORDLIKE.findall(words)) >= _WORDS and max(map(len, parts)) >= _RUN


def written(messages: list[Message], version: str) -> str:
    """The list as a text: for each place its name on a line, below it class and template of each message."""
    lines = [f"# made by tests/messages/inventory.py from torch {version}"]
    for place, own in groupby(messages, key=lambda m: m.place):
        lines.append(place)
        lines += [f"{m.exception}{'' if known_by_words(m.text) else FEW_WORDS}\t{m.text}" for m in own]
    return "\n".join(lines) + "\n"


def sizes(messages: list[Message]) -> str:
    """How many there are, by area, and how many the rule on the amount of text leaves to the traceback."""
    telling: Counter[str] = Counter()
    all_of: Counter[str] = Counter()
    for m in messages:
        area = "/".join(m.place.split("/")[:3]) if m.place.endswith(".py") else m.place
        all_of[area] += 1
        telling[area] += known_by_words(m.text)
    lines = [f"{n:6} {telling[area]:6}  {area}" for area, n in all_of.most_common()]
    return "\n".join([f"{all_of.total():6} {telling.total():6}  all, and those known by their words alone", *lines])


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        raise SystemExit(__doc__)
    package = Path(arguments[0])
    messages = collect(package)
    FILE.write_text(written(messages, version_of(package)), encoding="utf-8")
    print(sizes(messages))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
