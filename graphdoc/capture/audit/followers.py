"""Networks that an average moves after another one, step by step, without ever being loaded from it.

Told from the numbers: between a step and the next backward call some parameters move, each by the same part of its
distance from another parameter of its shape. Whether a loss trains them meanwhile, ``targets`` looks at.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from graphdoc.capture.audit.fingerprints import is_readable
from graphdoc.capture.facts import parameters_of
from graphdoc.capture.quiet import Unseen

if TYPE_CHECKING:
    from graphdoc.capture.audit import Audit
    from graphdoc.capture.journal import Seen

CLOSELY = 12
"""Steps of an optimizer after which nothing is looked for any more."""
MOST_PARAMETERS = 400
MOST_TRIES = 3
"""Times that the numbers are compared."""
VALUES = 8
"""Numbers of a parameter that are read."""
_NEAR = 0.01
"""How far a parameter may lie off the straight way, and one part differ from another, by rounding."""


class Followers:
    """Hands what it finds to ``Targets``; it has nothing to tell by itself."""

    def __init__(self, audit: Audit) -> None:
        self._audit = audit
        self._versions: dict[int, tuple[Any, int]] = {}
        """Of the parameters of optimizers, as their latest step has left them."""
        self._suspects: set[int] = set()
        """Those that something else than a step has written to."""
        self._values: dict[int, tuple[Any, list[float]]] = {}
        self._tries = 0

    def stepped(self, optimizer: Any, seen: Seen) -> None:
        """An optimizer has stepped."""
        if self._tries >= MOST_TRIES or seen.steps > CLOSELY:
            return
        kind = self._audit.torch.nn.Parameter
        mine = [p for p in parameters_of(optimizer)[: MOST_PARAMETERS + 1] if type(p) is kind and p.requires_grad]
        if len(mine) > MOST_PARAMETERS:
            return
        for p in mine:
            self._versions[id(p)] = weakref.ref(p), p._version
        if self._suspects:
            known = ((self._versions[i][0](), i) for i in self._suspects if i in self._versions)
            shapes = {p.shape for p, _ in known if p is not None}
            for p in mine:
                if p.shape in shapes and is_readable(p):
                    self._values[id(p)] = weakref.ref(p), self._read(p)

    def written(self, parameters: list[Any]) -> None:
        """These have moved since the latest step, though no version tells."""
        if self._tries < MOST_TRIES:
            self._suspects.update(id(p) for p in parameters)

    def called(self, leaves: dict[int, Any]) -> None:
        """A backward call is about to run; ``leaves`` are those behind its roots, by id."""
        if not self._versions:
            return
        if self._values:
            self._compare(leaves)
        for ident, (ref, version) in self._versions.items():
            p = leaves.get(ident)
            if p is not None and ref() is p and p._version != version:
                self._suspects.add(ident)
        self._versions.clear()
        self._values.clear()

    def _read(self, parameter: Any) -> list[float]:
        with Unseen(self._audit.torch, self._audit.witness.anomaly, None), self._audit.torch.no_grad():
            flat = parameter.detach().reshape(-1)
            return [float(v) for v in flat[:: max(1, flat.numel() // VALUES)][:VALUES].tolist()]

    def _compare(self, leaves: dict[int, Any]) -> None:
        moved: list[tuple[Any, list[float], list[float]]] = []
        still: list[tuple[Any, list[float]]] = []
        for ident, (ref, old) in self._values.items():
            p = ref()
            if p is None or not is_readable(p):
                continue
            new = self._read(p)
            if new == old:
                still.append((p, old))
            elif ident in leaves:
                moved.append((p, old, new))
        if not moved:
            return
        self._tries += 1
        pairs: list[tuple[Any, Any]] = []
        part = 0.0
        for p, old, new in moved:
            for q, there in still:
                found = _part(old, new, there) if q.shape == p.shape else 0.0
                if found and (not part or abs(found - part) <= _NEAR * part):
                    pairs.append((p, q))
                    part = part or found
                    break
            else:
                return
        self._tries = MOST_TRIES
        self._audit.targets.follows([p for p, _ in pairs], [q for _, q in pairs])


def _part(old: list[float], new: list[float], there: list[float]) -> float:
    """Which part of the way from ``old`` to ``there`` leads to ``new``, less than the whole: a parameter that is set to
    another one may be tied to it. 0 where none does."""
    way = [b - a for a, b in zip(old, there, strict=True)]
    done = [b - a for a, b in zip(old, new, strict=True)]
    length = sum(w * w for w in way)
    if not length:
        return 0.0
    part = sum(w * d for w, d in zip(way, done, strict=True)) / length
    off = sum((d - part * w) ** 2 for w, d in zip(way, done, strict=True))
    near = off <= _NEAR**2 * sum(d * d for d in done)
    return part if near and 0.0 < part < 1.0 - _NEAR and len(old) > 1 else 0.0
