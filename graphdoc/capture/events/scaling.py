"""The latest calls of a GradScaler's ``unscale_``, ``step`` and ``update``: where, and between which backward calls.

Also whether every step is left out: at whatever scale, or because a new scaler begins again and again."""

from __future__ import annotations

import sys
import weakref
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from graphdoc.capture.places import stacks
from graphdoc.capture.places.frames import frames_of, plain
from graphdoc.capture.process.quiet import Unseen
from graphdoc.capture.tensors.facts import grad_fn_of, held_by, parameters_of
from graphdoc.evidence import Evidence, Sign

if TYPE_CHECKING:
    from graphdoc.capture.witness import Witness

MOST_CALLS = 24
STARVED = 20
"""Steps in a row that a scaler leaves out before its scale is looked at: from PyTorch's first scale, 65536, it reaches
1 after sixteen."""
RENEWED = 3
"""Scalers of which each was made anew while no step had been taken, before that is told."""
_WATCHED = ("unscale_", "step", "update")


Call = tuple[str, stacks.Stack, int, int, int]
"""Kind, stack, events of the journal before it, identity of the optimizer, of the scaler."""


class ScalerCalls:
    """Remembers the latest calls."""

    def __init__(self, witness: Witness) -> None:
        """Watch the scaler's methods; where that cannot be, nothing is told."""
        self._witness = witness
        self.before_step: Callable[[Any], None] | None = None
        """Called with the optimizer that a scaler is about to step, or to leave out."""
        self.calls: deque[Call] = deque(maxlen=MOST_CALLS)
        self._scales = False
        self.stepping = False
        """Whether a scaler's own ``step`` is under way."""
        self.scaled: deque[int] = deque(maxlen=MOST_CALLS)
        """The sequence numbers of the latest nodes that multiply a loss by the scale."""
        self._divided: dict[int, int] = witness.journal.living.forgetting({})
        """By parameter, the first of each group: events before its gradients were last divided by the scale."""
        self._read = -1
        """Events before the program last read the scale: it may divide gradients by that itself."""
        self._latest: Any = bool
        self.starved: dict[str, Any] | None = None
        """Of a scaler that has left out every step for long, although its scale is 1 or less: ``skipped`` (how many in
        a row), ``scale``, ``from`` (the journal's event at which that was first so), ``stack`` (raw, of its step)."""
        self._born: dict[int, tuple[stacks.Stack, int]] = {}
        """Where each scaler was made that has stepped nothing yet, and how many steps were left out before."""
        self._vain = _Vain()
        kind = getattr(sys.modules.get("torch.amp.grad_scaler"), "GradScaler", None)
        calls: dict[str, Callable[..., None]] = {name: partial(self._called, name) for name in _WATCHED}
        calls |= {"__init__": self._making, "scale": self._scaling, "get_scale": self._reading}
        further: dict[str, dict[str, Any]] = {"step": {"after": self._stepped}, "scale": {"gave": self._gave}}
        for name, before in calls.items():
            witness.watch(kind, name, f"{name} calls of scalers", before=before, **further.get(name, {}))

    @property
    def used(self) -> bool:
        """Whether there was any call, also one that has only scaled a loss so far."""
        return self._scales or bool(self.calls)

    def _making(self, scaler: Any, *_: Any) -> None:
        others = [c for c in self.calls if c[4] != id(scaler)]  # the rest is of one that has ended
        self.calls.clear()
        self.calls.extend(others)
        if len(self._born) < MOST_CALLS:
            self._born[id(scaler)] = stacks.stack_here(3), self._vain.count

    def _scaling(self, scaler: Any, *_: Any) -> None:
        if getattr(scaler, "_enabled", True):
            self._scales, self._latest = True, weakref.ref(scaler)

    def _gave(self, _: Any, result: Any) -> Any:
        """``scale`` is about to return this."""
        node = grad_fn_of(result) if isinstance(result, self._witness.torch.Tensor) else None
        if node is not None and self._scales:
            self.scaled.append(node._sequence_nr())
        return result

    def _reading(self, *_: Any) -> None:
        self._read = self._witness.journal.count

    def _stepped(self, *_: Any) -> None:
        self.stepping = False

    def is_divided(self, parameters: list[Any], since: int) -> bool:
        """Whether the gradients of these have been divided by the scale since this event, or may have been."""
        return self._read > since or any(self._divided.get(id(p), -1) > since for p in parameters)

    def scale(self) -> float:
        """The scale of the scaler that was used last; 1 where it has ended."""
        read, scaler = self._read, self._latest()
        with Unseen(self._witness.torch, self._witness.anomaly, None):
            scale = float(scaler.get_scale()) if scaler else 1.0
        self._read = read
        return scale

    def _called(self, kind: str, scaler: Any, optimizer: Any, *_: Any) -> None:
        """``update`` has a new scale in the place of an optimizer."""
        if not getattr(scaler, "_enabled", True):
            return  # it does nothing at all
        journal = self._witness.journal
        which = id(optimizer) if kind != "update" else 0
        self.calls.append((kind, stacks.stack_here(3), journal.count, which, id(scaler)))
        if kind != "update":
            first = (held[0] for held in map(held_by, optimizer.param_groups) if held)
            self._divided.update((id(p), journal.count) for p in first)
        if kind == "step":
            self.stepping = True
            if self.before_step is not None:
                self.before_step(optimizer)
            self._vain.step(optimizer, journal.steps, self._born.pop(id(scaler), None), self.calls[-1])
        if kind == "update":
            self._count(scaler)

    def _count(self, scaler: Any) -> None:
        """An iteration of this scaler ends: has any optimizer stepped in it?

        Only a scale at which the gradients are as the loss gives them proves that no scale can help. It is read after
        many steps that were left out, and then each time: waiting for a GPU costs a program that trains nothing.
        """
        witness, vain = self._witness, self._vain
        if vain.latest is None or witness.journal.steps != vain.taken:
            self.starved = None
        elif vain.count >= STARVED and vain.latest[4] == id(scaler):
            scale = self.scale()
            if scale <= 1.0:
                since = self.starved["from"] if self.starved is not None else witness.journal.count
                self.starved = {"skipped": vain.count, "scale": scale, "from": since, "stack": vain.latest[1]}

    def signs(self) -> list[Sign]:
        """``renewed-scaler``: no call of its step (``stack``, the latest of ``count``) has let an optimizer step, and
        ``facts["scalers"]`` have been made meanwhile, each in its turn, the latest at ``other``."""
        vain = self._vain
        if vain.count < STARVED or vain.scalers < RENEWED or vain.made is None or vain.latest is None:
            return []
        stack, other = (frames_of(raw, self._witness.cwd) for raw in (vain.latest[1], vain.made))
        sign = Sign("renewed-scaler", stack, other, event=vain.latest[2], count=vain.count)
        sign.facts = {"scalers": vain.scalers}
        return [sign]

    def fill(self, evidence: Evidence, refused: bool = False) -> None:
        """Tell in ``extras["scaler"]`` the calls of the scaler that was called last, oldest first: for whatever
        optimizer, unless one was ``refused``."""
        last = self.calls[-1] if self.calls else None
        told = [c for c in self.calls if last and c[4] == last[4] and (not refused or c[3] in (0, last[3]))]
        if told:
            evidence.extras["scaler"] = [
                {"kind": kind, "stack": plain(frames_of(raw, self._witness.cwd)), "index": index}
                for kind, raw, index, _, _ in told
            ]


class _Vain:
    """Calls of ``scaler.step`` since any optimizer last stepped, and the scalers that were made anew meanwhile."""

    def __init__(self) -> None:
        self.count = self.scalers = 0
        self.made: stacks.Stack | None = None
        self.latest: Call | None = None
        self._begun = -1
        """How many calls there had been when the latest scaler was made."""
        self.taken = -1
        """How many steps of optimizers had been seen at the latest call."""
        self._versions: dict[int, int] = {}

    def step(self, optimizer: Any, taken: int, made: tuple[stacks.Stack, int] | None, call: Call) -> None:
        """A scaler is about to step, while ``taken`` steps have been seen; ``made`` tells where and when, if this is
        the first of this scaler."""
        first = next((p for p in parameters_of(optimizer) if p.grad is not None), None)
        if first is None:
            return
        # An optimizer of the program's own may step without PyTorch's hooks: it writes all the same.
        if taken != self.taken or self._versions.get(id(first), first._version) != first._version:
            self.count = self.scalers = 0
            self._begun, self.taken = -1, taken
            self._versions.clear()
        self._versions[id(first)] = first._version
        if made is not None and (made[1] > self._begun or self._begun < 0):
            self.scalers += 1
            self.made, self._begun = made
        self.count += 1
        self.latest = call
