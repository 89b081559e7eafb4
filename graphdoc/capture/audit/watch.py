"""What each watch of the audit has: the audit that it asks and tells, and what it found."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Any

from graphdoc.capture.events.journal import Entry, Noted, Seen
from graphdoc.capture.graph import walk
from graphdoc.capture.graph.roots import tensor_roots
from graphdoc.capture.graph.walk import op_of
from graphdoc.capture.places import stacks
from graphdoc.capture.places.frames import frames_of, plain, users_line
from graphdoc.evidence import AT_END, Evidence, Frame, Sign

if TYPE_CHECKING:
    from graphdoc.capture.audit import Audit

At = Noted | Entry | stacks.Stack | stacks.RawStack | list[Frame] | None
"""A place: that of a call into the engine or of another event, a stack, or frames; None for no place."""

MOST_TRAININGS = 8
"""Optimizers for which a look is counted anew, or is taken at all."""

ENOUGH = 4
"""Times that the same is seen of an optimizer, and nothing else, before it is told while the run goes on."""
FEW = 2
"""Times that are enough where something else speaks for it, or at the end of a run in which there were no others."""
OFTEN = 2
"""Graphs, calls or steps in which the same is seen before it is told of them."""


class EngineCall:
    """A call into the engine that is about to run; its graph is walked through once for all who ask of it."""

    def __init__(self, noted: Noted, outputs: Any, leaves: dict[int, Any] | None, args: tuple[Any, ...]) -> None:
        self.noted, self.outputs = noted, outputs
        self.leaves: dict[int, Any] = leaves or {}
        """Those behind its roots, by id, if it is looked at."""
        self.recorded = len(args) > 2 and bool(args[2])
        """Whether what it computes has a graph (``create_graph``)."""
        self.inputs: tuple[Any, ...] = tuple(args[3]) if len(args) > 3 and isinstance(args[3], list | tuple) else ()
        """What it asks the gradients of, or the only leaves that it gives any to, where the call names them."""

    @cached_property
    def roots(self) -> list[Any]:
        """The nodes that it begins at."""
        return tensor_roots(self.outputs)

    @cached_property
    def order(self) -> walk.Graph:
        """Its graph, as far as it may be walked through while the program goes on."""
        return walk.walk(self.roots, walk.DEEP - 1)


class Watch:
    """One question to a run that goes on. What it found stays found, where ``signs`` does not say otherwise."""

    def __init__(self, audit: Audit) -> None:
        self._audit, self._journal = audit, audit.journal
        self._found: list[Sign] = []
        self._evidence: Evidence | None = None
        self._looks = 0
        self._times: dict[Any, int] = {}
        self._kept: dict[Any, Sign] = {}
        """What was found of one thing or another, as long as nothing contradicts it."""
        self._few: dict[int, tuple[Seen, Sign]] = {}
        """By optimizer: what is told if the run ends before anything else is seen."""
        self.set_up()

    def set_up(self) -> None:
        """Begin with what it keeps of a run besides."""

    # -- what it may hear of -----------------------------------------------------------------------------------------

    def called(self, call: EngineCall) -> None:
        """A backward call that is looked at is about to run."""

    def began(self, call: EngineCall) -> None:
        """A backward call is about to run, whether it is looked at or not; none while the audit is asleep."""

    def asked(self, call: EngineCall) -> None:
        """A grad call that is looked at is about to run."""

    def gave(self, noted: Noted, results: Any) -> None:
        """A call has ended well, while this ``waits``."""

    def loaded(self, module: Any, state: Any, assign: bool) -> None:
        """``module.load_state_dict(state)`` is about to run."""

    def zeroed(self, optimizer: Any, seen: Seen, raw: stacks.Stack) -> None:
        """An optimizer is about to be cleared before one of its first steps, or a module with what it holds."""

    def stepped(self, optimizer: Any, seen: Seen) -> None:
        """An optimizer has made a step that is looked at, and that is of interest."""

    # -- what it asks for --------------------------------------------------------------------------------------------

    def of_interest(self, _seen: Seen) -> bool:
        """Whether a step that is looked at is of interest."""
        return True

    def wants(self, _seen: Seen) -> bool:
        """Whether it asks for each step of this optimizer now, however many there have been."""
        return False

    def _often(self, what: Any, enough: int) -> bool:
        """Whether this has been seen so often now."""
        self._times[what] = self._times.get(what, 0) + 1
        return self._times[what] >= enough

    def _may_look(self, most: int, looks: bool = True) -> bool:
        """Whether it has not looked so often for each optimizer yet: another one may be made when the first has
        trained. This is a look, if it ``looks``."""
        may = self._looks < most * min(max(len(self._journal.optimizers), 1), MOST_TRAININGS)
        self._looks += may and looks
        return may

    def _frames(self, at: At) -> list[Frame]:
        """A place as the evidence has it."""
        if at is None or (isinstance(at, list) and at and isinstance(at[0], Frame)):
            return at or []
        raw = at.raw if isinstance(at, Entry) else stacks.stack_of_seen(at[3]) if isinstance(at, tuple) else at
        return frames_of(raw, self._audit.witness.cwd)

    def _facts(self, at: At) -> list[dict[str, Any]]:
        """A place as the facts of a sign have it."""
        return plain(self._frames(at))

    def _line(self, at: At) -> list[dict[str, Any]]:
        """The innermost line of the user's own code there, as the facts of a sign hold it."""
        return users_line(self._frames(at))

    def _latest_step(self, seen: Seen) -> list[Frame]:
        """The stack of an optimizer's latest step; empty where the journal does not have it."""
        return self._frames(self._journal.latest("step", seen.id))

    def _sign(self, kind: str, at: At, other: At = None, parameters: Iterable[int] = (), **further: Any) -> Sign:
        """A sign of parameters, given by their ids, with the names that they have now."""
        self._audit.snapshot()
        return self._sign_at(kind, at, other, parameters=self._audit.named(parameters), **further)

    def _sign_at(self, kind: str, at: At, other: At = None, **further: Any) -> Sign:
        """A sign with these places. If one of them is a call or another event, it was certain there."""
        events = (e.index if isinstance(e, Entry) else e[0] for e in (at, other) if isinstance(e, tuple | Entry))
        return Sign(kind, self._frames(at), self._frames(other), **{"event": next(events, -1), **further})

    def _sign_of_step(self, kind: str, seen: Seen, parameters: list[Any]) -> Sign | None:
        """A sign at the latest step of an optimizer, about these parameters; None where the step is not known."""
        step = self._journal.latest("step", seen.id)
        return self._sign(kind, step, None, map(id, parameters), optimizer=seen.id) if step is not None else None

    def _met_at(self, kind: str, node: Any, kept: stacks.Stack, noted: Noted) -> Sign:
        """A sign of the operation that has made this node, as a backward call meets it."""
        return self._sign_at(kind, kept, noted, facts={"op": op_of(node)})

    def _report(self, sign: Sign) -> None:
        """This was found for certain."""
        self._found.append(sign)
        self._audit.tell_early()

    def _so_often(self, times: int, seen: Seen, tell: Callable[[], Sign | None]) -> None:
        """The same was seen of this optimizer so many times, and nothing else."""
        if times not in (FEW, ENOUGH):
            if seen.id in self._few:
                self._few[seen.id][1].count = times
            return
        self._few.pop(seen.id, None)
        sign = tell()
        if sign is None:
            return
        sign.count = times
        if times == ENOUGH:
            self._report(sign)
        else:
            sign.facts[AT_END] = True
            self._few[seen.id] = seen, sign

    def _at_end(self, holds: Callable[[Seen], bool] = bool) -> list[Sign]:
        """What was seen of optimizers all the time, if the run has ended by itself and had no training but theirs."""
        return [sign for seen, sign in self._few.values() if self._audit.was_all(seen) and holds(seen)]

    def evidence(self) -> Evidence | None:
        """What was found, as the evidence of the failure that it would be; None where it is told as signs alone."""
        return self._evidence

    def signs(self) -> list[Sign]:
        if self._evidence is not None:
            return self._evidence.signs[:1]
        return [*self._found, *self._kept.values(), *self._at_end()]


CLOSELY = 12
"""Steps of an optimizer that every watch looks at."""
LOOKS = (5, 12, 100, 1000)
"""Steps of an optimizer after which the running functions' values are looked at."""


class Early(Watch):
    """One that an optimizer's first steps decide."""

    def of_interest(self, seen: Seen) -> bool:
        return seen.steps <= CLOSELY


class Sparse(Watch):
    """One that looks closely at first, and then ever more rarely."""

    def of_interest(self, seen: Seen) -> bool:
        return seen.steps <= CLOSELY or seen.steps in LOOKS


class Open(Watch):
    """One that looks at each step of an optimizer until it has its answer about that."""

    def __init__(self, audit: Audit) -> None:
        self.over: set[int] = set()
        """Optimizers of which nothing is to be looked for any more."""
        super().__init__(audit)

    def wants(self, seen: Seen) -> bool:
        return seen.id not in self.over

    def of_interest(self, seen: Seen) -> bool:
        return self.wants(seen)
