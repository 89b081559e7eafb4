"""Calls that bound the gradients, and whether any step uses what they bound."""

from __future__ import annotations

import math
from collections.abc import Callable
from inspect import GEN_CREATED, getgeneratorstate
from sys import _getframe
from types import GeneratorType
from typing import TYPE_CHECKING, Any

from graphdoc.capture import stacks
from graphdoc.capture.audit.watch import Watch
from graphdoc.capture.inserted_calls import CannotInsert, insert_calls
from graphdoc.capture.number_facts import has_memory
from graphdoc.capture.quiet import Unseen
from graphdoc.evidence import Sign

if TYPE_CHECKING:
    from graphdoc.capture.audit import Audit
    from graphdoc.capture.journal import Entry


ENOUGH = 4
"""Calls from one place in which the same was seen."""
LAST = 6
"""Calls that are looked at from each place."""
MOST = 40
"""Calls that are looked at in all."""
_FUNCTIONS = ("_clip_grads_with_norm_", "clip_grad_value_")
"""Of ``torch.nn.utils.clip_grad``; the first one does the work of ``clip_grad_norm_`` (PyTorch 2.6 and later)."""


def _given(parameters: Any, torch: Any) -> list[Any] | tuple[Any, ...] | None:
    """The parameters that a call is given, with nothing taken from an iterator: one of ``Module.parameters()`` that
    has not begun still holds its module, one that has ended holds nothing. None where that cannot be known."""
    if isinstance(parameters, list | tuple):
        return parameters
    if type(parameters) is not GeneratorType:
        return None
    frame = parameters.gi_frame
    if frame is None:
        return []
    if parameters.gi_code is not torch.nn.Module.parameters.__code__ or getgeneratorstate(parameters) != GEN_CREATED:
        return None
    known = frame.f_locals
    return list(torch.nn.Module.parameters(known["self"], known["recurse"]))


class _Clip:
    """One call: where, between which events, the calls of scalers before it, whether it found gradients, and whether
    it had to bound them, as far as that is known without waiting for a GPU."""

    def __init__(self, raw: stacks.Stack, index: int, ids: set[int], scaler: list[Any]) -> None:
        self.raw, self.index, self.ids, self.scaler = raw, index, ids, scaler
        self.found = self.bounds = True


class Clips(Watch):
    """``clip-unused``: ``stack`` is the call that bounds, ``other`` the call that it has to change places with or stand
    in front of; ``facts["how"]`` is ``after-step``, ``others-step`` (``other`` uses gradients of other parameters),
    ``before-backward`` or ``before-unscale``; ``facts["bounds"]`` whether any of the calls had something to bound. Or
    ``nothing-given``: the call has no parameters to bound, while ``other`` steps; the source has to tell why."""

    def __init__(self, audit: Audit) -> None:
        super().__init__(audit)
        self._clips: list[_Clip] = []
        self._over = False

    def watch(self) -> list[Callable[[], None]]:
        """Insert calls into PyTorch's functions; what undoes it. Where that cannot be, nothing is told."""
        from torch.nn.utils import clip_grad

        undo = []
        for name in _FUNCTIONS:
            try:
                function = getattr(clip_grad, name)
                undo.append(insert_calls(getattr(function, "__wrapped__", function), before=self._clipping))
            except (CannotInsert, AttributeError, TypeError):
                continue
        return undo

    def _clipping(self, parameters: Any, bound: Any, norm: Any, *_: Any) -> None:
        """The gradients of these parameters are about to be bounded."""
        if self._over:
            return
        try:
            self._note(parameters, bound, norm)
        except Exception as e:
            self._over = True
            self._audit.witness.trouble(e)

    def _note(self, parameters: Any, bound: Any, norm: Any) -> None:
        audit = self._audit
        every = [parameters] if isinstance(parameters, audit.torch.Tensor) else _given(parameters, audit.torch)
        if every is None or math.isinf(float(bound)):
            return  # what is only measured
        with Unseen(audit.torch, audit.witness.anomaly, None):
            found = any(p.grad is not None for p in every)
            plain = isinstance(norm, audit.torch.Tensor) and norm.is_cpu and has_memory(norm)
            known = float(norm) if found and plain else None
        here = stacks.stack_of_frame(_getframe(3))  # _note < _clipping < PyTorch's function
        ids = {id(p) for p in every}
        clip = _Clip(here, audit.journal.count, ids, audit.witness.scaler_calls())
        clip.found = found and known != 0.0
        clip.bounds = known is None or known > float(bound)
        self._clips.append(clip)
        self._over = len(self._clips) >= MOST or all(len(calls) >= LAST for calls in self._by_place())

    # -- the end -------------------------------------------------------------------------------------------------

    def signs(self) -> list[Sign]:
        if not self._found and len(self._clips) >= ENOUGH:
            self._judge()
        return self._found

    def stepped(self) -> None:
        """An optimizer has stepped; once there is enough to judge by, while the program's names are there."""
        if self._over and not self._found and self._clips:
            self._judge()
            self._clips.clear()
            if self._found:
                self._audit.tell_early()

    def _by_place(self) -> list[list[_Clip]]:
        places: dict[Any, list[_Clip]] = {}
        for clip in self._clips:
            places.setdefault(tuple(map(id, clip.raw.raw[::2])) + tuple(clip.raw.raw[1::2]), []).append(clip)
        return list(places.values())

    def _judge(self) -> None:
        entries = self._audit.journal.entries()
        for clips in self._by_place():
            if len(clips) < ENOUGH:
                continue
            seen = [self._how(clip, entries) for clip in clips]
            if seen[-1] is None:  # the call that decides has not come yet
                seen.pop()
            if not seen:
                continue
            if seen[0] is None or (seen[0][0] != "nothing-given" and not any(c.ids for c in clips[1:])):
                seen = seen[1:]
            hows = {how[0] if how is not None else "" for how in seen}
            if len(hows) == 1 and seen[-1] is not None and seen[-1][0]:
                self._tell(clips[-1], any(c.bounds for c in clips), *seen[-1])

    def _how(self, clip: _Clip, entries: list[Entry]) -> tuple[str, Entry | None] | None:
        """What keeps this call from having an effect, and the call that it is about; "" for nothing."""
        before = [e for e in entries if e.index < clip.index]
        after = [e for e in entries if e.index >= clip.index]
        if not clip.ids:
            step = next((e for e in after if e.kind == "step"), None)
            return ("nothing-given", step) if step is not None else None
        owners = {s.id for s in self._audit.journal.optimizers.values() if clip.ids & set(s.parameters)}
        if not owners:
            return None
        last = next((e for e in reversed(before) if self._concerns(e, owners, clip.ids)), None)
        following = next((e for e in after if self._concerns(e, owners, clip.ids)), None)
        if last is None or following is None:
            return None
        if last.kind == "step" and following.kind == "zero_grad":
            others, mine = self._step_of_others(entries, last, clip, following)
            if others is None:
                return "after-step", last
            beside = [c for c in self._clips if last.index < c.index <= others.index]
            # All networks may be bounded in front of each step.
            return ("", None) if any(c.ids & mine for c in beside) else ("others-step", others)
        if not clip.found and following.kind == "backward" and following.reaches is not None:
            then = next((e for e in after if e.kind in ("step", "zero_grad") and e.optimizer in owners), None)
            return ("before-backward", following) if then is not None and then.kind == "step" else ("", None)
        if last.kind == "backward" and following.kind == "step" and self._is_scaled(last, clip):
            return "before-unscale", following
        return "", None

    def _step_of_others(
        self, entries: list[Entry], last: Entry, clip: _Clip, following: Entry
    ) -> tuple[Entry | None, set[int]]:
        """The step for which a call may have been meant, and what it uses: backward has run for it since the clipped
        parameters were stepped, and it comes before they are cleared."""
        since = [e for e in entries if last.index < e.index < following.index]
        step = next((e for e in since if e.kind == "step" and e.index >= clip.index), None)
        if step is None:
            return None, set()
        known = self._audit.journal.optimizers.values()
        mine = {i for s in known if s.id == step.optimizer for i in s.parameters}
        made = [e for e in since if e.kind == "backward" and e.index < clip.index]
        return (step if any(e.reaches and e.reaches & mine for e in made) else None), mine

    def _concerns(self, entry: Entry, owners: set[int], ids: set[int]) -> bool:
        if entry.kind == "backward":
            return entry.reaches is None or bool(entry.reaches & ids)
        return entry.kind in ("step", "zero_grad") and entry.optimizer in owners

    def _is_scaled(self, backward: Entry, clip: _Clip) -> bool:
        """Whether a scaler steps behind this call and has not unscaled in front of it."""
        unscaled = any(kind == "unscale_" and index > backward.index for kind, _, index, _, _ in clip.scaler)
        calls = self._audit.witness.scaler_calls()
        return not unscaled and any(kind == "step" and index == clip.index for kind, _, index, _, _ in calls)

    def _tell(self, clip: _Clip, bounds: bool, how: str, about: Entry | None) -> None:
        audit = self._audit
        audit.snapshot()
        sign = Sign("clip-unused", self._frames(clip.raw), self._frames(about.raw) if about is not None else [])
        sign.parameters = audit.named(clip.ids)
        owners = [s for s in audit.journal.optimizers.values() if clip.ids & set(s.parameters)]
        sign.optimizer = owners[0].id if owners else about.optimizer if about is not None else -1
        sign.event, sign.count, sign.facts = clip.index, ENOUGH, {"how": how, "bounds": bounds}
        self._found.append(sign)
