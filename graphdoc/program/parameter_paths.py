"""Which of a run's parameters a path in the source means: all those of a module, or one by itself."""

from __future__ import annotations

import re
from collections.abc import Iterable

ITERATORS = {"parameters", "named_parameters", "modules", "named_modules", "children", "named_children"}
"""Methods of a module that give a generator."""
_ANY = r"\w+"
_STEP = re.compile(r"\[(?!\d+\]|(?:'\w+'|\"\w+\")\])[^]]*\]|\w+")
"""A word of a path, or an index that is not written out: ``[i]``."""


def within(path: str, names: Iterable[str]) -> dict[str, str]:
    """The parameters among ``names`` that lie in what the source calls ``path``, each with its own name in there, which
    is empty for the one that is meant itself.

    The object that a path starts from may have another name in the run: ``self.encoder`` and ``net.encoder`` can be
    ``model.encoder``. So the longest end of the path counts that the name of any parameter has: ``teacher.encoder`` is
    not ``student.encoder`` where the run knows both. Give all names among which that is to be decided.
    """
    steps = [_ANY if step.startswith("[") else step for step in _STEP.findall(path) if "(" not in path]
    begins = "^" if steps[:1] != ["self"] else "^self\\W+"
    steps, every = steps[steps[:1] == ["self"] :], list(names)
    while steps and steps[-1] in ITERATORS:
        steps.pop()
    while any(map(str.isidentifier, steps)):
        for start in (begins, r"(?<!\w)"):
            # What has an index that is not written out may be any of several, and is no single one.
            end = re.compile(start + r"\W+".join(steps) + rf"(?!\w)\W*(\w.*{'' if steps[-1] == _ANY else '|'})")
            if found := {name: match[1] for name in every if (match := end.search(name))}:
                return found
        begins, steps = r"(?<!\w)", steps[1:]
    return {}
