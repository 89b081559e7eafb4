"""Names that a user knows: not those of what a library keeps to itself on the way to the user's own object."""

from __future__ import annotations

import sys
from typing import Any

from graphdoc.capture.code_places import is_user_file
from graphdoc.evidence import Step

Path = tuple[Step, ...]


class Privates:
    """Remembers which steps of a search went through a private attribute of a library's object."""

    def __init__(self) -> None:
        self._steps: dict[int, Step] = {}
        self._of_modules: set[int] = set()
        self._libraries: dict[type, bool] = {}

    def note(self, owner: Any, step: Step, module: bool = False) -> Step:
        """Look at a step that was made from ``owner``. A step that counts is kept, so that its id stays its own."""
        if step.key.startswith("_") and self._is_librarys(type(owner)):
            self._steps[id(step)] = step
            if module:
                self._of_modules.add(id(step))
        return step

    def _is_librarys(self, cls: type) -> bool:
        known = self._libraries.get(cls)
        if known is None:
            module = sys.modules.get(str(cls.__dict__.get("__module__", "")))
            file = getattr(module, "__dict__", {}).get("__file__")
            known = self._libraries[cls] = isinstance(file, str) and not is_user_file(file)
        return known

    def crossed(self, path: Path) -> bool:
        """Whether the way leads through one."""
        return any(id(step) in self._steps for step in path)

    def shortened(self, path: Path, classes: frozenset[str]) -> Path | None:
        """The way from the first object of one of these classes behind the last private step, named by its class.

        None where the way crosses nothing private, or leads to no such object.
        """
        last = next((i for i in range(len(path) - 1, -1, -1) if id(path[i]) in self._steps), -1)
        if last < 0:
            return None
        at = next((i for i in range(last, len(path)) if path[i].type in classes), -1)
        return (Step("name", path[at].type, path[at].type), *path[at + 1 :]) if at >= 0 else None

    def owner(self, path: Path) -> Path | None:
        """The way to the object that keeps a value to itself, where that is the one private step; None elsewhere.

        What a distribution computes from its arguments is to its user the distribution. What a module keeps of its
        passes is not the module: that was not computed.
        """
        private = [i for i, step in enumerate(path) if id(step) in self._steps]
        if private != [len(path) - 1] or len(path) < 2 or id(path[-1]) in self._of_modules:
            return None
        return path[:-1]
