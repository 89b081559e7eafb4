"""The audit: looks at a run that goes on, the first steps closely and then ever more rarely, and tells at its end.

It asks nothing of a GPU, keeps no tensor alive, and searches for names only once something is suspicious: a program in
which nothing is wrong pays for a few looks at its first steps.
"""

from __future__ import annotations

from collections.abc import Iterable
from sys import _getframe
from types import FrameType
from typing import TYPE_CHECKING, Any

from graphdoc.capture.audit.clearing import LAST, Aliases, Clearing, Collecting, Taken, Wasted
from graphdoc.capture.audit.constants import Baselines, Dropped, References
from graphdoc.capture.audit.deadends import DeadEnds
from graphdoc.capture.audit.flags import Flagged, Refrozen, Shared
from graphdoc.capture.audit.flat import Flattened, ZeroLoss
from graphdoc.capture.audit.goals import Goals
from graphdoc.capture.audit.growing import Growing
from graphdoc.capture.audit.inner import Inner, Products, Unbent
from graphdoc.capture.audit.losses import Losses
from graphdoc.capture.audit.moved import Moved
from graphdoc.capture.audit.ranks import Streams, Unreduced
from graphdoc.capture.audit.replaced import LoadTakenBack, Replaced
from graphdoc.capture.audit.stale import Once, Stale
from graphdoc.capture.audit.steps import AtRest, PastScaler, Rounded, Starved, Undone, Unstepped
from graphdoc.capture.audit.targets import Followers, Parted, Restored, Targets
from graphdoc.capture.audit.unheld import MadeAnew, Unheld
from graphdoc.capture.audit.unrecorded import Unrecorded
from graphdoc.capture.audit.unused import BesideLoss, Clips, Unused
from graphdoc.capture.audit.watch import CLOSELY, LOOKS, Early, EngineCall, Open, Sparse, Watch
from graphdoc.capture.graph.autopsy import Autopsy
from graphdoc.capture.places import stacks
from graphdoc.capture.process.quiet import Unseen
from graphdoc.capture.tensors.facts import parameters_of, user_frames
from graphdoc.evidence import AS_IF, SECOND_LOOK, SO_FAR, Evidence, Sign

if TYPE_CHECKING:
    from graphdoc.capture.events.journal import Noted, Seen
    from graphdoc.capture.witness import Witness

MOST_SNAPSHOTS = 8
"""Searches for names in one run; each may take a tenth of a second."""

ALL, APART = 64, 32
"""Steps of an optimizer that are all looked at; of the later ones two in a row, so many steps apart, and at first half
so many."""
MOST_CLEARS = 50
"""Modules that clear gradients, of which it is asked whose they are."""


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
        self.over = False
        """The run has ended by itself."""
        self._clears = 0
        self.asleep = False
        """No optimizer's next step was to be looked at when one was last: the calls since are passed over too."""
        self.reached: dict[int, int] = living.forgetting({})
        """In how many of the backward calls that were looked at a leaf was reached, by id."""
        self.losses, self.stale, self.once, self.flattened = Losses(self), Stale(self), Once(self), Flattened(self)
        self.followers, self.targets, self.unheld = Followers(self), Targets(self), Unheld(self)
        self.unrecorded = Unrecorded(self)
        self.clips, self.deadends, self.moved, self.streams = Clips(self), DeadEnds(self), Moved(self), Streams(self)
        self.taken, self.beside, self.restored = Taken(self), BesideLoss(self), Restored(self)
        unused = Unused(self)
        self.watches: list[Watch] = [
            *(unused, self.losses, Unstepped(self), Aliases(self), self.stale, self.followers, self.targets),
            *(self.unheld, Clearing(self), Growing(self), self.clips, self.deadends, Refrozen(self), self.moved),
            *(Flagged(self), Inner(self), Products(self), References(self), Baselines(self), Collecting(self)),
            *(Starved(self), Unreduced(self), Rounded(self), self.flattened, ZeroLoss(self)),
            *(Undone(self), AtRest(self), MadeAnew(self), Dropped(self), self.streams, self.restored, Wasted(self)),
            *(self.once, self.beside, Shared(self), self.taken, Parted(self), Unbent(self), Goals(self)),
            *(Replaced(self), LoadTakenBack(self), PastScaler(self), self.unrecorded),
        ]
        """In the order in which they hear of what happens, and tell."""

        def hearing(moment: str) -> list[Any]:
            """Those that have something to do at such a moment."""
            return [w for w in self.watches if getattr(type(w), moment) is not getattr(Watch, moment)]

        self._calling, self._beginning, self._asking = hearing("called"), hearing("began"), hearing("asked")
        self._giving, self._loading, self._zeroing = hearing("gave"), hearing("loaded"), hearing("zeroed")
        stepping = hearing("stepped")
        self._closely = [(w.of_interest, w.stepped) for w in stepping]
        late = [w for w in stepping if not isinstance(w, Early | Sparse)]
        self._later = [(w.wants if isinstance(w, Open) else None, w.stepped) for w in late]
        """Those that look at the other steps too, and what each is asked first: between steps every call counts."""
        self._closer = (self.losses, unused)
        """They ask for operations that only a second run records."""

    @classmethod
    def start(cls, witness: Witness, _: str) -> Audit:
        audit = witness.audit = cls(witness)
        witness.audits.append(audit)
        return audit

    # -- what happens --------------------------------------------------------------------------------------------

    def unseen(self) -> Unseen:
        """The program sees nothing of what is done within: all that the audit does at one moment."""
        self._moment = Unseen(self.torch, self.witness.anomaly, None)
        return self._moment

    def running(self) -> list[FrameType]:
        """The user's functions that are running, whose names are to be read at this moment."""
        found = user_frames(_getframe(1))
        self._moment.frame = next(iter(found), None)
        return found

    def calling(self, noted: Noted, outputs: Any, leaves: dict[int, Any] | None, args: tuple[Any, ...]) -> None:
        """A call into the engine is about to run, with these further arguments; ``leaves`` are those behind its roots,
        by id, if it is looked at."""
        backward = noted[1] == "backward"
        if leaves is None and (self.asleep or not backward):
            return
        call = EngineCall(noted, outputs, leaves, args)
        with self.unseen():
            if leaves is not None:
                self.wake()
                for ident in leaves if backward else ():
                    self.reached[ident] = self.reached.get(ident, 0) + 1
                for watch in self._calling if backward else self._asking:
                    (watch.called if backward else watch.asked)(call)
            for watch in self._beginning if backward else ():
                watch.began(call)

    def wake(self) -> None:
        """The next step of each optimizer is looked at."""
        self.asleep = False
        for seen in self.journal.optimizers.values():
            seen.due = 0

    @property
    def waits(self) -> bool:
        """Whether the engine call that runs now is of interest when it ends."""
        return any(watch.waits for watch in self._giving)

    def gave(self, noted: Noted, results: Any) -> None:
        """Such a call has ended well."""
        with self.unseen():
            for watch in [w for w in self._giving if w.waits]:
                watch.gave(noted, results)

    def given(self, state: Any) -> None:
        """A module's ``state_dict()`` is about to return this."""
        self.restored.given(state)

    def loaded(self, module: Any, state: Any, assign: bool = False) -> None:
        """``module.load_state_dict(state)`` is about to run."""
        with self.unseen():
            for watch in self._loading:
                watch.loaded(module, state, assign)

    def zeroed(self, optimizer: Any, seen: Seen) -> None:
        """``optimizer.zero_grad()`` is about to run, before a step that is looked at."""
        if seen.steps < LAST:
            self._throw(optimizer, seen, stacks.stack_here(3))  # zeroed < the inserted callback < zero_grad
        self.moved.cleared(seen.id)

    def emptied(self, module: Any) -> None:
        """``module.zero_grad()`` is about to run, which clears what optimizers hold of the module."""
        self._clears += 1
        mine = {id(p) for p in module.parameters() if p.grad is not None}
        for optimizer, seen in self.journal.made() if mine else ():
            early = seen is None or seen.steps < LAST
            if early and any(id(p) in mine for p in parameters_of(optimizer)):
                self._throw(optimizer, seen or self.journal.optimizer(optimizer), stacks.stack_here(3))
        if self.moved.closely:
            self.moved.cleared()

    def _throw(self, optimizer: Any, seen: Seen, here: stacks.Stack) -> None:
        with self.unseen():
            for watch in self._zeroing:
                watch.zeroed(optimizer, seen, here)

    @property
    def hears(self) -> bool:
        """Whether a module that clears gradients is of interest."""
        early = self._clears < MOST_CLEARS or any(seen.steps < LAST for seen in self.journal.optimizers.values())
        return early or self.moved.closely

    def stepped(self, optimizer: Any, seen: Seen) -> None:
        """An optimizer has made a step that is looked at."""
        closely = seen.steps <= CLOSELY or seen.steps in LOOKS
        with self.unseen():
            for asked, stepped in self._closely if closely else self._later:
                if asked is None or asked(seen):
                    stepped(optimizer, seen)
        seen.due = self._next(seen)
        self.asleep = all(s.due > s.steps + 1 for s in self.journal.optimizers.values())

    def _next(self, seen: Seen) -> int:
        """The step of this optimizer that is looked at next."""
        steps = seen.steps
        apart = APART if steps >= 2 * ALL else APART // 2
        if steps < ALL or steps % apart == 0 or self.early or any(watch.wants(seen) for watch in self.watches):
            return steps + 1
        return min(n for n in (steps - steps % apart + apart, seen.look, *LOOKS) if n > steps)

    # -- names ---------------------------------------------------------------------------------------------------

    def snapshot(self) -> None:
        """Take the names of what is alive now; a program's functions have ended when the run has."""
        if self.snapshots >= MOST_SNAPSHOTS:
            return
        self.snapshots += 1
        frame = _getframe(1)
        with Unseen(self.torch, self.witness.anomaly, frame):
            autopsy = Autopsy(self.witness, user_frames(frame))
            self.program = Evidence()
            autopsy.fill_program(self.program)
            self.names.update(autopsy.census.parameter_names)

    def named(self, ids: Iterable[int]) -> list[str]:
        """The names of the parameters with these ids, as far as they have one."""
        return sorted(self.names[i] for i in ids if i in self.names)

    def was_all(self, seen: Seen) -> bool:
        """Whether the run has ended by itself, and no optimizer was trained before or after this one."""
        others = (o for o in self.journal.optimizers.values() if o.steps and o.id != seen.id)
        return self.over and all(o.span[0] < seen.span[1] and seen.span[0] < o.span[1] for o in others)

    # -- the end -------------------------------------------------------------------------------------------------

    def found(self) -> bool:
        """Whether there is anything to tell."""
        return bool(self._signs())

    def _signs(self) -> list[Sign]:
        found = list[Sign]()
        with Unseen(self.torch, self.witness.anomaly, None):
            for watch in self.watches:
                found += (signs := watch.signs())
                for sign in signs if self.early and watch not in self._closer else ():
                    # That is of one backward call, which no later step contradicts; or no first run has looked for it.
                    if sign.kind not in AS_IF | SECOND_LOOK:
                        sign.facts[SO_FAR] = True
        return found + self.witness.scaler.signs()

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
        return next((e for w in (self.losses, self.unrecorded, self.stale, self.once) if (e := w.evidence())), None)

    def tell_early(self) -> None:
        """Something is certain now; a run that is ended from outside has no end of its own to tell it at."""
        if self.early and self.witness.failures.evidence is None:
            self.witness.write_audit()
