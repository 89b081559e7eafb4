"""States that were kept without a copy: to load one later writes each tensor into itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphdoc.capture import stacks
from graphdoc.capture.audit.watch import Watch
from graphdoc.capture.frames import frames_of
from graphdoc.capture.living import Ref
from graphdoc.capture.number_facts import has_memory
from graphdoc.capture.quiet import Unseen
from graphdoc.evidence import Sign

if TYPE_CHECKING:
    from graphdoc.capture.audit import Audit

MOST_GIVEN = 200
"""States that are followed at a time, by two tensors of each."""


class _Given:
    """One tensor of a state that ``state_dict()`` has handed out, and how far the run had come by then."""

    __slots__ = ("now", "ref", "stack", "steps", "version")

    def __init__(self, tensor: Any, stack: Any, now: int, steps: dict[int, int]) -> None:
        self.ref, self.version = Ref(tensor), tensor._version
        self.stack, self.now, self.steps = stack, now, steps


class Restored(Watch):
    """``restored-itself``: ``stack`` loads a state that ``other`` had taken from the same module, and each tensor of it
    is still the module's own. In between the ``parameters`` were changed: by a step of ``optimizer``, or
    (``facts["by"]``) by a load of other numbers."""

    def __init__(self, audit: Audit) -> None:
        super().__init__(audit)
        self._given: dict[int, _Given] = {}
        """By the id of the tensor."""
        self._loads = 0
        self._replaced: dict[int, int] = {}
        """By module: the latest load that brought other numbers."""
        self._kept: dict[tuple[str, int], Sign | None] = {}
        """By the place that loads; None for one that has brought other numbers as well."""

    def given(self, state: Any) -> None:
        """A module's ``state_dict()`` is about to return ``state``."""
        if len(self._given) > 2 * MOST_GIVEN:
            self._given = {i: g for i, g in self._given.items() if g.ref() is not None}
        tensors = self._tensors(state)
        if not tensors or len(self._given) > 2 * MOST_GIVEN:
            return
        steps = {seen.id: seen.steps for seen in self._audit.journal.optimizers.values()}
        raw = stacks.stack_here(4)  # given < Audit.given < the inserted callback < the function
        for t in (tensors[0], tensors[-1]):
            self._given[id(t)] = _Given(t, raw, self._loads, steps)

    def loaded(self, module: Any, state: Any) -> None:
        """``module.load_state_dict(state)`` is about to run."""
        tensors = self._tensors(state)
        if not tensors or not self._given:
            return
        self._loads += 1
        audit, cwd = self._audit, self._audit.witness.cwd
        user = [f for f in frames_of(stacks.stack_here(4), cwd) if f.user]
        if not user:
            return
        place = (user[-1].file, user[-1].line)
        with Unseen(audit.torch, audit.witness.anomaly, None):
            own = dict(module.named_buffers(remove_duplicate=False))
            own.update(module.named_parameters(remove_duplicate=False))
            pairs = [(own.get(name), t) for name, t in state.items() if isinstance(t, audit.torch.Tensor)]
            if not all(_is_itself(*pair) for pair in pairs):
                self._replaced[id(module)] = self._loads
                self._kept[place] = None
                return
        ends = ((t, self._given.get(id(t))) for t in (tensors[0], tensors[-1]))
        taken = next((g for t, g in ends if g and t._version != g.version and g.ref() is t), None)
        if taken is None or place in self._kept:
            return
        mine = {id(p) for p, _ in pairs}
        stepped = next(
            (
                seen.id
                for seen in audit.journal.optimizers.values()
                if seen.steps > taken.steps.get(seen.id, 0) and mine.intersection(seen.parameters)
            ),
            -1,
        )
        if stepped < 0 and self._replaced.get(id(module), 0) <= taken.now:
            return
        audit.snapshot()
        sign = Sign("restored-itself", user, self._frames(taken.stack), None, audit.named(mine), stepped)
        sign.count, sign.facts = 1, {"by": "load" if stepped < 0 else "step"}
        self._kept[place] = sign
        audit.tell_early()

    def _tensors(self, state: Any) -> list[Any]:
        kinds = self._audit.torch.Tensor, self._audit.torch.nn.Parameter
        plain = (t for t in state.values() if type(t) in kinds) if isinstance(state, dict) else ()
        return [t for t in plain if t.is_floating_point() and has_memory(t) and not t.is_inference()]

    def signs(self) -> list[Sign]:
        return [sign for sign in self._kept.values() if sign is not None]


def _is_itself(own: Any, given: Any) -> bool:
    """Whether to copy one into the other leaves every number where it is."""
    if own is None or own.shape != given.shape or own.dtype != given.dtype:
        return False
    if not has_memory(own) or not has_memory(given):
        return not given.numel()
    return bool(own.data_ptr() == given.data_ptr() and own.stride() == given.stride())
