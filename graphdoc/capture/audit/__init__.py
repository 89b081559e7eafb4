"""The audit: looks at a run that goes on, the first steps closely and then ever more rarely, and tells at its end.

It asks nothing of a GPU, keeps no tensor alive, and searches for names only once something is suspicious: a program in
which nothing is wrong pays for a few looks at its first steps.
"""

from __future__ import annotations

from collections.abc import Iterable
from sys import _getframe
from typing import TYPE_CHECKING, Any

from graphdoc.capture.audit.anew import MadeAnew
from graphdoc.capture.audit.baselines import Baselines
from graphdoc.capture.audit.beside import BesideLoss
from graphdoc.capture.audit.clearing import Aliases, Clearing, Collecting, Wasted
from graphdoc.capture.audit.clips import Clips
from graphdoc.capture.audit.deadends import DeadEnds
from graphdoc.capture.audit.dropped import Dropped
from graphdoc.capture.audit.flags import Flagged, Misspelled, Refrozen
from graphdoc.capture.audit.flat import Flattened, ZeroLoss
from graphdoc.capture.audit.growing import LOOKS, Growing
from graphdoc.capture.audit.inner import Inner, Products
from graphdoc.capture.audit.losses import Losses
from graphdoc.capture.audit.moved import Moved
from graphdoc.capture.audit.once import Once
from graphdoc.capture.audit.references import References
from graphdoc.capture.audit.restored import Restored
from graphdoc.capture.audit.rounded import Rounded
from graphdoc.capture.audit.stale import Stale
from graphdoc.capture.audit.streams import Streams
from graphdoc.capture.audit.targets import Followers, Targets
from graphdoc.capture.audit.undone import AtRest, Undone
from graphdoc.capture.audit.unheld import Unheld
from graphdoc.capture.audit.unreduced import Unreduced
from graphdoc.capture.audit.unstepped import Starved, Unstepped
from graphdoc.capture.audit.unused import Unused
from graphdoc.capture.autopsy import Autopsy
from graphdoc.capture.facts import user_frames
from graphdoc.capture.frames import frames_of
from graphdoc.capture.quiet import Unseen
from graphdoc.evidence import AS_IF, SO_FAR, Evidence, Sign

if TYPE_CHECKING:
    from graphdoc.capture.journal import Noted, Seen
    from graphdoc.capture.witness import Witness

MOST_SNAPSHOTS = 8
"""Searches for names in one run; each may take a tenth of a second."""

CLOSELY = 12
"""Steps of an optimizer that every watch looks at."""
ALL, APART = 128, 32
"""Steps of an optimizer that are all looked at; of the later ones two in a row, so many steps apart."""
MOST_LOADED = 100_000
"""Parameters that are known to come from elsewhere."""


class Audit:
    """One process. What is looked for stands in ``watches``; each has ``signs()``."""

    def __init__(self, witness: Witness) -> None:
        self.witness = witness
        self.torch = witness.torch
        self.journal = witness.journal
        living = self.journal.living
        self.names: dict[int, str] = living.forgetting({})
        self.program = Evidence()
        self.snapshots = 0
        self.early = not witness.mode.startswith("observe")
        """A run that is ended from outside tells what it finds at once."""
        self.asleep = False
        """No optimizer's next step was to be looked at when one was last: the calls since are passed over too."""
        self.unstepped = Unstepped(self)
        self.losses = Losses(self)
        self.reached: dict[int, int] = living.forgetting({})
        """In how many of the backward calls that were looked at a leaf was reached, by id."""
        self.aliases = Aliases(self)
        self.stale = Stale(self)
        self.moved = Moved(self)
        self.once = Once(self)
        self.targets = Targets(self)
        self.followers = Followers(self)
        self.unheld = Unheld(self)
        self.clearing = Clearing(self)
        self.growing = Growing(self)
        self.clips = Clips(self)
        self.deadends = DeadEnds(self)
        self.refrozen = Refrozen(self)
        self.flagged = Flagged(self)
        self.inner = Inner(self)
        self.products = Products(self)
        self.references = References(self)
        self.baselines = Baselines(self)
        self.dropped = Dropped(self)
        self.collecting = Collecting(self)
        self.misspelled = Misspelled(self)
        self.unused = Unused(self, self.losses.watch)
        self.starved = Starved(self)
        self.unreduced = Unreduced(self)
        self.rounded = Rounded(self)
        self.flattened = Flattened(self)
        self.zero_loss = ZeroLoss(self)
        self.made_anew = MadeAnew(self)
        self.undone = Undone(self)
        self.at_rest = AtRest(self)
        self.streams = Streams(self)
        self.restored = Restored(self)
        self.wasted = Wasted(self)
        self.beside = BesideLoss(self)
        self.watches: list[Any] = [
            *(self.losses, self.unstepped, self.aliases, self.stale, self.targets, self.unheld, self.clearing),
            *(self.growing, self.clips, self.deadends, self.refrozen, self.moved, self.unused, self.flagged),
            *(self.inner, self.products, self.references, self.baselines, self.collecting, self.misspelled),
            *(self.starved, self.unreduced, self.rounded, self.flattened, self.zero_loss),
            *(self.undone, self.at_rest, self.made_anew, self.dropped, self.streams),
            *(self.restored, self.wasted, self.once, self.beside),
        ]

    @classmethod
    def start(cls, witness: Witness) -> Audit:
        audit = witness.audit = cls(witness)
        witness.undoing += audit.clips.watch()
        return audit

    # -- what happens --------------------------------------------------------------------------------------------

    def called(self, noted: Noted, outputs: Any, leaves: dict[int, Any], inputs: Any = ()) -> None:
        """A backward call that is looked at is about to run; ``leaves`` are those behind its roots, by id. ``inputs``
        are the only ones that it gives gradient to, where the call names them."""
        self._wake()
        for ident in leaves:
            self.reached[ident] = self.reached.get(ident, 0) + 1
        self.unused.called(noted, outputs, leaves)
        self.losses.called(noted, outputs, leaves)
        self.aliases.called(noted, leaves)
        self.stale.called(noted, outputs, leaves)
        self.moved.called(noted, outputs, leaves)
        self.once.called(noted, outputs)
        self.followers.called(leaves)
        self.targets.called(noted, outputs, leaves)
        self.unheld.called(noted, outputs, leaves)
        self.made_anew.called(noted, outputs, leaves)
        mine = {id(t): t for t in inputs if id(t) in leaves} if inputs else leaves
        first = outputs[0] if len(outputs) == 1 and not inputs else None
        self.clearing.called(noted, mine, isinstance(first, self.torch.Tensor) and first.numel() == 1)
        self.deadends.called(noted, outputs)
        self.flattened.called(noted, outputs)
        self.zero_loss.called(noted, outputs)
        self.references.called(noted, outputs, leaves)
        self.baselines.called(noted, outputs)
        self.dropped.called(noted, outputs)
        self.starved.called(noted, leaves)
        self.unreduced.called(noted, outputs, leaves)

    def _wake(self) -> None:
        """The next step of each optimizer is looked at."""
        self.asleep = False
        for seen in self.journal.optimizers.values():
            seen.due = 0

    def began(self, noted: Noted, outputs: Any) -> None:
        """A backward call is about to run, whether it is looked at or not; none while the audit is asleep."""
        self.moved.began(noted, outputs)
        self.undone.began()
        self.beside.differentiated(noted, outputs)

    def asked(self, noted: Noted, outputs: Any, leaves: dict[int, Any], args: tuple[Any, ...]) -> None:
        """A grad call that is looked at is about to run; ``args`` are those of the engine."""
        self._wake()
        self.beside.differentiated(noted, outputs)
        self.products.asked(noted, outputs, args)
        self.unheld.asked(args[3] if len(args) > 3 else ())
        self.made_anew.asked(args[3] if len(args) > 3 else ())
        self.inner.asked(noted, leaves, len(args) > 2 and bool(args[2]), args[3] if len(args) > 3 else ())

    @property
    def waits(self) -> bool:
        """Whether the engine call that runs now is of interest when it ends."""
        return self.products.waits or self.unreduced.waits

    def gave(self, noted: Noted, results: Any) -> None:
        """Such a call has ended well."""
        if self.unreduced.waits:
            self.unreduced.gave()
        if self.products.waits:
            self.products.gave(noted, results)

    def given(self, state: Any) -> None:
        """A module's ``state_dict()`` is about to return this."""
        self.restored.given(state)

    def loaded(self, module: Any, state: Any) -> None:
        """``module.load_state_dict(state)`` is about to run."""
        self.targets.loaded(module, state)
        self.restored.loaded(module, state)
        if len(self.unheld.loaded) < MOST_LOADED:
            self.unheld.load(list(module.parameters()))

    def zeroed(self, optimizer: Any, seen: Seen) -> None:
        """``optimizer.zero_grad()`` is about to run, before a step that is looked at."""
        if not seen.steps:
            self.unstepped.zeroed(optimizer, seen)
        self.clearing.zeroed(optimizer, seen)
        self.moved.zeroed(seen)

    def emptied(self, module: Any) -> None:
        """``module.zero_grad()`` is about to run."""
        if self.clearing.looks:
            self.clearing.emptied(module)
        if self.moved.closely:
            self.moved.emptied()

    @property
    def hears(self) -> bool:
        """Whether a module that clears gradients is of interest."""
        return self.clearing.looks or self.moved.closely

    def stepped(self, optimizer: Any, seen: Seen) -> None:
        """An optimizer has made a step that is looked at."""
        self.unused.stepped(optimizer, seen)
        self.losses.stepped(optimizer, seen, self.reached)
        self.stale.stepped(optimizer, seen)
        self.moved.stepped(optimizer, seen)
        self.once.stepped(optimizer, seen)
        closely = seen.steps <= CLOSELY
        if closely:
            self.followers.stepped(optimizer)
        self.unheld.stepped(optimizer, seen)
        if closely:
            self.inner.stepped(optimizer, seen)
            self.beside.stepped(seen)
            self.collecting.stepped(seen)
            self.wasted.stepped(optimizer, seen)
            self.misspelled.stepped(optimizer, seen)
        if not self.zero_loss.over:
            self.zero_loss.stepped(optimizer)
        self.undone.stepped(optimizer, seen)
        for watch in (self.starved, self.unreduced, self.rounded, self.flattened, self.at_rest):
            if watch.wants(seen):
                watch.stepped(optimizer, seen)
        if closely or seen.steps in LOOKS:
            self.clearing.stepped(optimizer, seen)
            self.growing.stepped(seen)
            self.clips.stepped()
            self.deadends.stepped(optimizer, seen)
        if seen.steps == 1 or self.refrozen.followed:
            self.refrozen.stepped(optimizer, seen)
        if seen.steps == 1 or self.flagged.followed:
            self.flagged.stepped(optimizer, seen)
        seen.due = self._next(seen)
        self.asleep = all(s.due > s.steps + 1 for s in self.journal.optimizers.values())

    def _next(self, seen: Seen) -> int:
        """The step of this optimizer that is looked at next."""
        steps = seen.steps
        if steps < ALL or steps % APART == 0 or self.early or any(watch.wants(seen) for watch in self.watches):
            return steps + 1
        return min(n for n in (steps - steps % APART + APART, seen.look, *LOOKS) if n > steps)

    # -- names ---------------------------------------------------------------------------------------------------

    def snapshot(self) -> None:
        """Take the names of what is alive now; a program's functions have ended when the run has."""
        if self.snapshots >= MOST_SNAPSHOTS:
            return
        self.snapshots += 1
        frame = _getframe(1)
        with Unseen(self.torch, self.witness.anomaly, frame):
            autopsy = Autopsy(self.torch, self.journal, self.witness.cwd, user_frames(frame))
            self.program = Evidence()
            autopsy.fill_program(self.program)
            self.names.update(autopsy.census.parameter_names)

    def named(self, ids: Iterable[int]) -> list[str]:
        """The names of the parameters with these ids, as far as they have one."""
        return sorted(self.names[i] for i in ids if i in self.names)

    def of_step(self, kind: str, seen: Seen, parameters: list[Any]) -> Sign | None:
        """A sign at the latest step of an optimizer, about these parameters; None where the step is not known."""
        step = self.journal.latest("step", seen.id)
        if step is None:
            return None
        self.snapshot()
        sign = Sign(kind, frames_of(step.raw, self.witness.cwd), optimizer=seen.id, event=step.index)
        sign.parameters = self.named(map(id, parameters))
        return sign

    # -- the end -------------------------------------------------------------------------------------------------

    def found(self) -> bool:
        """Whether there is anything to tell."""
        return bool(self._signs())

    def _signs(self) -> list[Sign]:
        closer = (self.losses, self.unused)  # they ask for operations that only a second run records
        found = list[Sign]()
        for watch in self.watches:
            found += (signs := watch.signs())
            for sign in signs if self.early and watch not in closer else ():
                if sign.kind not in AS_IF:  # that is of one backward call: no later step contradicts it
                    sign.facts[SO_FAR] = True
        return found + [sign for probe in self.witness.probes for sign in getattr(probe, "audited", list)()]

    def tell(self, evidence: Evidence) -> None:
        """Add what was seen, and the program as it was when it was seen."""
        signs = self._signs()
        if evidence is not self.evidence():
            signs = [s for s in signs if s.kind not in AS_IF]  # an exception was raised, and this tells of that
        if not evidence.events:
            evidence.events = self.program.events
        if not evidence.parameters:
            evidence.optimizers, evidence.parameters = self.program.optimizers, self.program.parameters
        evidence.signs += [s for s in signs if s not in evidence.signs]

    def evidence(self) -> Evidence | None:
        """What was found as the evidence of a failure, if that is how it is told best."""
        return self.losses.evidence() or self.stale.evidence() or self.once.evidence()

    def tell_early(self) -> None:
        """Something is certain now; a run that is ended from outside has no end of its own to tell it at."""
        if self.early and self.witness.failures.evidence is None:
            self.witness.write_audit()
