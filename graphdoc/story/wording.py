"""Words that all stories share: many names in few, an optimizer, a count; one rule for lines and capitals."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from functools import lru_cache

from graphdoc.evidence import Optimizer, Sign, optimizer_with
from graphdoc.finding import Finding
from graphdoc.program.observed import Program
from graphdoc.program.proof import signs

_INDEX = re.compile(r"\[\d+\]")
_ATTRIBUTES = frozenset({"data", "grad"})
_COMPARISONS = {"gt": ">", "lt": "<", "ge": ">=", "le": "<=", "eq": "==", "ne": "!="}


def folded(names: Iterable[str], most: int = 3, beside: Iterable[str] = ()) -> str:
    """Parameters shortened by module: ``critic.*`` and ``actor.net.*`` (8 parameters).

    A name that stands alone in its module is told whole. The prefix told is the longest that the names of one
    top-level module share, entries of one list as ``layers[…].*``, so it never takes in a module that none of them
    lies in, nor one of the names ``beside`` them, of which something else is true: ``layers.*.lora_A``. Empty for no
    names.
    """
    every = sorted(set(names))
    shown = _patterns(every, set(beside).difference(every), 1)
    count = f" ({len(every)} parameters)" if len(every) > len(shown) else ""
    return listing([f"`{pattern}`" for pattern in shown], most) + count


def _patterns(names: list[str], others: set[str], depth: int) -> list[str]:
    """The names by the first parts of their paths, by as many as keep the others out; or else by their ends."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for name in names:
        groups.setdefault(tuple(name.split(".")[:depth]), []).append(name)
    out: list[str] = []
    for group in groups.values():
        start = shared_path(group)
        beside = [o for o in others if (_INDEX.sub("[…]", o) if "[…]" in start else o).startswith(start)]
        if len(group) == 1:
            out += group
        elif not beside:
            out.append(f"{start}*")
        else:
            deeper, ends = _patterns(group, others, depth + 1), _by_ends(group, start, beside)
            out += ends if ends and len(ends) < len(deeper) else deeper
    return out


def _by_ends(names: list[str], start: str, others: list[str]) -> list[str]:
    """The last one or two words of the names, where each of them stands for several and for none of the others."""
    for words in (1, 2):
        ends = [".".join(name.split(".")[-words:]) for name in names]
        several = all(ends.count(end) > 1 for end in ends)
        if several and not any(o.endswith(f".{end}") for o in others for end in ends):
            return [f"{start}*.{end}" for end in dict.fromkeys(ends)]
    return []


def shared_path(names: list[str]) -> str:
    """The dotted beginning that all have in common, with its last dot."""
    common: list[str] = []
    for parts in zip(*(name.split(".")[:-1] for name in names), strict=False):
        shapes = {_INDEX.sub("[…]", part) for part in parts}
        if len(shapes) > 1:
            break
        common.append(parts[0] if len(set(parts)) == 1 else shapes.pop())
    return "".join(f"{part}." for part in common)


def gathered(names: Iterable[str]) -> list[str]:
    """Names of several entries of one container as one: ``state[0]`` and ``state[1]`` are ``state``, and
    ``memory[0].value`` and ``memory[1].value`` are ``memory[…].value``.
    """
    groups: dict[str, list[str]] = {}
    for name in dict.fromkeys(names):
        groups.setdefault(_INDEX.sub("[…]", name), []).append(name)
    return [group[0] if len(group) == 1 else shape.removesuffix("[…]") for shape, group in groups.items()]


def of_entries(name: str, every: Iterable[str]) -> str:
    """A name that may be of any of several entries: ``state[…].v`` for ``state[0].v`` beside ``state[1].v``."""
    shape = _INDEX.sub("[…]", name)
    return gathered([name, *(n for n in every if _INDEX.sub("[…]", n) == shape)])[0]


def as_called(name: str) -> str:
    """A function in a sentence, with its parentheses: `item()`, and `float()` for ``__float__``; an attribute with its
    dot, and an operator as it is written: `.data`, `>`."""
    name = re.sub(r"^__(\w+)__$", r"\1", name)
    if name in _ATTRIBUTES or name in _COMPARISONS:
        return f"`{_COMPARISONS.get(name, f'.{name}')}`"
    parts = name.split(".")
    calls = all(part.isidentifier() for part in parts) and parts[-1] not in _ATTRIBUTES
    return f"`{name}()`" if calls else f"`{name}`"


def begins_small(title: str) -> str:
    """A title by the one rule for all of them: it begins small, unless a name begins it (`PyTorch`, code)."""
    word = re.match(r"[A-Z][a-z]*(?![\w.(])", title)
    return title[0].lower() + title[1:] if word else title


_OF_ONE = {"are": "is", "were": "was", "have": "has", "carry": "carries", "they": "it", "them": "it", "their": "its"}


def in_number(several: bool, words: str) -> list[str]:
    """These words of a sentence on several things, or the same for one: ``are``, ``is``; ``get``, ``gets``."""
    return words.split() if several else [_OF_ONE.get(word, f"{word}s") for word in words.split()]


def listing(words: Iterable[str], most: int = 3) -> str:
    """``a``, ``a and b``, ``a, b and c``, ``a, b and 4 more``."""
    every = list(dict.fromkeys(words))
    most = max(most, 2)  # "and 2 more" alone names nothing
    if len(every) > most:
        return f"{', '.join(every[: most - 1])} and {len(every) - most + 1} more"
    return " and ".join(filter(None, [", ".join(every[:-1]), *every[-1:]]))


# How a sentence calls an optimizer.


def in_words(name: str, kind: str, parameters: Iterable[str], number: int) -> str:
    """As the program calls it, else by what it holds (``the Adam of `critic.*```), else by its number in the run."""
    if name:
        return f"`{name}`"
    held = folded(parameters, 2)
    return f"the {kind} of {held}" if held else f"{kind} (optimizer {number})"


def told(optimizer: Optimizer, optimizers: Sequence[Optimizer]) -> str:
    """One of the optimizers of a run."""
    number = optimizers.index(optimizer) + 1
    return in_words(optimizer.name, optimizer.type, optimizer.parameters, number)


def all_told(optimizers: Sequence[Optimizer], ids: Iterable[int]) -> list[str]:
    """Those with these ids, in the order of the run."""
    wanted = set(ids)
    return [told(o, optimizers) for o in optimizers if o.id in wanted]


def optimizer_of(optimizers: Sequence[Optimizer], sign: Sign) -> str:
    """That of a sign."""
    found = optimizer_with(optimizers, sign.optimizer)
    return told(found, optimizers) if found is not None else "the optimizer"


def opening(sentence: str) -> str:
    """The sentence with a capital at its beginning, where no name stands there."""
    return sentence[:1].upper() + sentence[1:]


# A cause that several signs speak for: the first of them whose story can be told.

Story = Callable[[Program, Sign], Finding | None]
"""What tells a sign of a run; None where it does not know enough to."""


def first_told(program: Program, *stories: tuple[str, Story]) -> Finding | None:
    """The first finding in the order of the stories, each of which is for one kind of sign."""
    told = (story(program, sign) for kind, story in stories for sign in signs(program.signs, kind))
    return next((finding for finding in told if finding is not None), None)


# One rule for lines and capitals: ``line 13`` where the program is one file, and a title begins small.


def in_lines(text: str, files: Collection[str], *, sentence: bool = False) -> str:
    """The text with ``line 13`` for ``train.py:13`` where ``files``, those of the program, are one; ``lines 11 and 12``
    for several. With ``sentence`` the text begins with a capital."""
    names = [file.replace("\\", "/").rsplit("/", 1)[-1] for file in files]
    if len(names) != 1 or f"{names[0]}:" not in text:
        return text

    def called(match: re.Match[str]) -> str:
        numbers = re.findall(r"(?:^|:|, |and )(\d+)", match[0][len(names[0]) :])
        word = "lines" if len(numbers) > 1 else "line"
        before = text[: match.start()]
        begins = before.endswith((". ", "! ", "? ")) or (sentence and not before)
        listed = " and ".join(filter(None, [", ".join(numbers[:-1]), numbers[-1]]))
        return f"{word.capitalize() if begins else word} {listed}"

    return _place(names[0]).sub(called, text)


@lru_cache(maxsize=8)
def _place(name: str) -> re.Pattern[str]:
    """A place in this file, and those behind it in a list; none that stands in code or belongs to a longer path."""
    one = re.escape(name) + r":\d+(?!\d|:\d)"
    return re.compile(rf"(?<![\w/\\.`-]){one}(?:(?:, | and ){one}|, \d+(?=, \d| into\b))*")


def by_the_rules(finding: Finding, files: Collection[str]) -> Finding:
    """The finding with all of its words by the rules for lines and for capitals; ``files`` are those of the program."""
    title = begins_small(in_lines(finding.title, files))
    text = in_lines(finding.explanation, files, sentence=True)
    because = in_lines(finding.because, files)
    facts = tuple(in_lines(fact, files) for fact in finding.facts)
    spans = tuple(replace(s, label=in_lines(s.label, files)) for s in finding.spans)
    return replace(finding, title=title, explanation=text, because=because, facts=facts, spans=spans)


def one_line(text: str, most: int) -> str:
    """A text on one line, of at most so many characters."""
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 1] + "…"
