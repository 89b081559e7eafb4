"""Optimizers that are cleared again and again and never step: gradients are made for them and thrown away."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from sys import _getframe
from typing import TYPE_CHECKING, Any

from graphdoc.capture import event_stacks, node_stacks, stacks, walk
from graphdoc.capture.facts import grad_fn_of, parameters_of, user_frames
from graphdoc.capture.frames import frames_of, lines_with, optimizer_functions, site_of
from graphdoc.capture.number_facts import numbers_of
from graphdoc.capture.quiet import Unseen, forget_locals
from graphdoc.capture.walk import VIEWS
from graphdoc.evidence import Sign

if TYPE_CHECKING:
    from graphdoc.capture.audit import Audit
    from graphdoc.capture.journal import Entry, Noted, Place, Seen


ENOUGH = 5
"""Times that gradients have been thrown away before anything is said."""

MOST_SAMPLED = 50
"""Parameters whose numbers are looked at, twice in a run."""


class Unstepped:
    """``step-missing``: ``stack`` is the backward call whose gradients no optimizer uses, ``other`` the call of
    ``zero_grad`` that throws those of this optimizer away. ``facts["alone"]``: they are for this optimizer only;
    ``facts["elsewhere"]`` are files of the program that speak of gradients."""

    def __init__(self, audit: Audit) -> None:
        self._audit = audit
        self._discards: dict[int, int] = {}
        self._values: dict[int, list[float]] = {}
        """What the parameters of such an optimizer held when it was first cleared."""
        self._found: dict[int, tuple[Seen, Sign]] = {}

    def zeroed(self, optimizer: Any, seen: Seen) -> None:
        """An optimizer that has never stepped is about to be cleared."""
        count = self._discards.get(seen.id, 0)
        if count > ENOUGH:
            return
        parameters = parameters_of(optimizer)
        if not any(p.grad is not None for p in parameters):
            return
        if count == 0:
            self._values[seen.id] = self._sampled(parameters)
        self._discards[seen.id] = count + 1
        if count + 1 == ENOUGH and self._sampled(parameters) == self._values[seen.id]:
            self._judge(parameters, seen)

    def _sampled(self, parameters: list[Any]) -> list[float]:
        """A few numbers of each parameter: a program that updates them by itself may do so by ``.data``, of which the
        version counter knows nothing."""
        audit = self._audit
        out: list[float] = []
        with Unseen(audit.torch, audit.witness.anomaly, None), audit.torch.no_grad():
            for p in parameters[:MOST_SAMPLED]:
                numbers = numbers_of(p) if p.is_floating_point() else None
                if numbers is None:
                    out.append(0.0 if p.is_inference() else float(p._version))
                    continue
                flat = numbers.reshape(-1)
                out.append(float(flat[:: max(1, flat.numel() // 16)].double().sum()))
        return out

    def _judge(self, parameters: list[Any], seen: Seen) -> None:
        audit = self._audit
        if audit.witness.scaled():
            return  # a scaler leaves steps out as long as gradients overflow
        mine = {id(p) for p in parameters}
        entries = list(audit.journal.entries())
        own = [e for e in entries if e.kind == "backward" and e.reaches and e.reaches <= mine]
        alone = bool(own)
        own = own or self._unused(entries, mine)
        if not own or optimizer_functions(own[-1].raw):
            return  # others' losses pass through these parameters, or a step with a closure is under way
        here = stacks.stack_here(4)  # _judge < zeroed < Audit.zeroed < the inserted callback
        audit.snapshot()
        cwd = audit.witness.cwd
        names = sorted(audit.names[i] for i in mine if i in audit.names)
        sign = Sign("step-missing", frames_of(own[-1].raw, cwd), frames_of(here, cwd), None, names, seen.id)
        sign.event, sign.count, sign.facts["alone"] = audit.journal.count, ENOUGH, alone
        sign.facts["elsewhere"] = lines_with(b".grad", cwd)
        self._found[seen.id] = (seen, sign)
        audit.tell_early()

    def _unused(self, entries: list[Entry], mine: set[int]) -> list[Entry]:
        """The backward calls from one place that reach these parameters among others, and of which no step has used
        anything: each optimizer that stepped behind one had been cleared first.
        """
        held = {ident: {id(p) for p in parameters_of(o)} for ident, o in self._alive()}
        found: dict[Place, list[Entry]] = {}
        used: set[Place] = set()
        for at, e in enumerate(entries):
            if e.kind == "backward" and (e.reaches is None or e.reaches & mine):
                found.setdefault(e.place, []).append(e)
                if e.reaches is None or _used(e.reaches, entries[at + 1 :], held):
                    used.add(e.place)
        left = [calls for place, calls in found.items() if place not in used and len(calls) >= ENOUGH - 1]
        return left[0] if len(left) == 1 else []

    def _alive(self) -> list[tuple[int, Any]]:
        return [(ident, o) for ident, s in self._audit.journal.optimizers.items() if (o := s.ref()) is not None]

    def signs(self) -> list[Sign]:
        return [sign for seen, sign in self._found.values() if not seen.steps]


def _used(reaches: frozenset[int], later: list[Entry], held: dict[int, set[int]]) -> bool:
    """Whether a step behind a backward call may have used its gradients: its optimizer was not cleared in between."""
    cleared: set[int] = set()
    for e in later:
        if e.kind == "zero_grad":
            cleared.add(e.optimizer)
        elif (
            e.kind == "step" and e.optimizer not in cleared and (e.optimizer not in held or held[e.optimizer] & reaches)
        ):
            return True
    return False


# Copies of parameters that were kept with their graph, and from which the parameters' distance is measured later.
# Both sides of such a difference lead to the same parameter, with derivatives that cancel. Told from the graph alone:
# by nothing but copies and views, one side made before a step of the parameter's optimizer and the other one behind
# it.

MOST_LOOKS = 30
OFTEN = 2
"""Calls in which the same is seen before it is told."""
DEEPEST = 8
"""Copies and views inside each other that are worked out."""
WIDEST = 4000
"""Values in one concatenation."""

COPIES = {"CloneBackward0", "ToCopyBackward0", "CatBackward0", "StackBackward0"}
_SAME = {"CloneBackward0", "ToCopyBackward0", "AliasBackward0"}
"""Their result has the elements of their operand, each at its place."""
_DIFFERENCES = {"SubBackward0": 1, "AddBackward0": -1}
"""A difference where the second operand has this factor."""
_DISTANCES = {"MseLossBackward0", "SmoothL1LossBackward0", "HuberLossBackward0", "DistBackward0"}

_settings: dict[type, tuple[str, ...]] = {}


class References:
    """``own-copy``: ``stack`` is where such a copy was made, ``other`` the difference, ``parameters`` what was copied,
    ``facts["backward"]`` the backward call."""

    def __init__(self, audit: Audit) -> None:
        self._audit = audit
        self._looks = 0
        self._steps: dict[int, tuple[int, tuple[int, ...]]] = {}
        """Of each optimizer the sequence number at its latest step and the ids of its parameters."""
        self._counts: dict[Any, int] = {}
        self._found: list[Sign] = []

    def stepped(self, seen: Seen) -> None:
        """An optimizer has stepped."""
        if self._looks < MOST_LOOKS and not self._found:
            self._steps[seen.id] = self._audit.torch.autograd._get_sequence_nr(), seen.parameters

    def called(self, noted: Noted, outputs: Any, leaves: dict[int, Any]) -> None:
        """A backward call that is looked at is about to run."""
        if self._found or not self._steps or self._looks >= MOST_LOOKS:
            return
        stepped = {i: at for at, mine in sorted(self._steps.values()) for i in mine if i in leaves}
        if not stepped:
            return
        self._looks += 1
        audit = self._audit
        with Unseen(audit.torch, audit.witness.anomaly, _getframe(1)):
            order = walk.walk([grad_fn_of(t) for t in outputs if hasattr(t, "grad_fn")], walk.DEEP - 1)
            latest = max(stepped.values())
            if not any(f.sequence < latest and f.op in COPIES for f in order):
                return
            found = list(_differences(order, stepped))
        if found:
            self._note(noted, found)

    def _note(self, noted: Noted, found: list[tuple[Any, Any, frozenset[int]]]) -> None:
        """What was found, by the place of the copy that comes first: it is told when it is there again."""
        kept = [(node_stacks.kept_in(copy), node_stacks.kept_in(node), leaves) for copy, node, leaves in found]
        known = [(c, n, leaves) for c, n, leaves in kept if isinstance(c, stacks.Stack) and isinstance(n, stacks.Stack)]
        if not known:
            return
        copy, node, _ = known[0]
        at = site_of(copy)
        self._counts[at] = self._counts.get(at, 0) + 1
        if self._counts[at] < OFTEN:
            return
        audit, cwd = self._audit, self._audit.witness.cwd
        audit.snapshot()
        sign = Sign("own-copy", frames_of(copy, cwd), frames_of(node, cwd), event=noted[0], count=OFTEN)
        mine = {i for c, _, leaves in known if site_of(c) == at for i in leaves}
        sign.parameters = sorted(audit.names[i] for i in mine if i in audit.names)
        call = frames_of(event_stacks.stack_of_seen(noted[3]), cwd)
        sign.facts = {"backward": [vars(f) for f in call if f.user][-1:]}
        self._found.append(sign)
        audit.tell_early()

    def signs(self) -> list[Sign]:
        """What was found; nothing takes it back."""
        return self._found


def _differences(order: list[walk.Found], stepped: dict[int, int]) -> Iterator[tuple[Any, Any, frozenset[int]]]:
    """Each difference between parameters and an older copy of them: the copy's node, its own, ids of the parameters."""
    for found in order:
        pair = _operands(found.node)
        if pair is None:
            continue
        sides = [_Value(*edge) for edge in pair]
        if sides[0].content is None or sides[0].content != sides[1].content:
            continue
        leaves = sides[0].leaves
        if not leaves or not all(i in stepped for i in leaves):
            continue
        step = min(stepped[i] for i in leaves)
        old = [s for s in sides if s.copies and all(n._sequence_nr() < step for n in s.copies)]
        new = [s for s in sides if all(n._sequence_nr() >= step for n in s.nodes)]
        if len(old) == 1 and len(new) == 1 and old[0] is not new[0]:
            yield old[0].copies[0], found.node, leaves


def _operands(node: Any) -> Any:
    """The two edges of a difference or a distance; None for any other node."""
    name = type(node).__name__
    edges = node.next_functions
    if len(edges) != 2 or edges[0][0] is None or edges[1][0] is None:
        return None
    if name in _DISTANCES:
        return edges
    factor = _DIFFERENCES.get(name)
    if factor is None:
        return None
    try:
        return edges if factor * float(node._saved_alpha) == 1.0 else None
    except (AttributeError, TypeError, RuntimeError):
        return None


class _Value:
    """What an operand consists of. ``content`` is equal for equal elements of equal parameters, None for anything but
    copies and views of them; ``copies`` are its nodes that copied, the last one first, ``nodes`` all of its nodes."""

    def __init__(self, node: Any, number: int) -> None:
        self.nodes: list[Any] = []
        self.copies: list[Any] = []
        self._ids: set[int] = set()
        self.content = self._read(node, number, 0)
        self.leaves = frozenset(self._ids)

    def _read(self, node: Any, number: int, depth: int) -> Any:
        if node is None or number != 0 or depth > DEEPEST or len(self.nodes) > WIDEST:
            return None
        leaf = getattr(node, "variable", None)
        if leaf is not None:
            self._ids.add(id(leaf))
            return id(leaf)
        name = type(node).__name__
        if name not in COPIES and name not in VIEWS:
            return None
        self.nodes.append(node)
        if name in COPIES:
            self.copies.append(node)
        inside = tuple(self._read(n, i, depth + 1) for n, i in node.next_functions)
        if not inside or None in inside:
            return None
        return inside[0] if name in _SAME else (name, _setting(node), inside)


def _setting(node: Any) -> str:
    """The shape of what a node has made and the numbers that it was made by."""
    cls = type(node)
    names = _settings.get(cls)
    if names is None:
        every = set(dir(cls))
        names = tuple(sorted(a for a in every if a.startswith("_saved_") and "_raw" + a not in every))
        _settings[cls] = names
    shapes = [tuple(m.shape) for m in getattr(node, "_input_metadata", ())]
    return repr((shapes, [getattr(node, name) for name in names]))


# Modules that carry ``requires_grad`` as a plain attribute which says the opposite of what their parameters do.
# ``nn.Module`` has no such attribute: setting one stores a bool and switches nothing. Looked at are the modules that
# the frames around an optimizer's first step hold, once, and again a few steps later.

JUDGED = 3
"""The step of an optimizer at which a flag that still contradicts is told."""
MOST_MODULES = 5_000
FLAG = "requires_grad"


class Flagged:
    """``flag-of-module``: ``facts`` has ``names``, the last words of the modules' names, and ``value``, their flag;
    ``parameters`` are those that do otherwise, and ``stops`` those of them that are meant to receive no gradient."""

    def __init__(self, audit: Audit) -> None:
        self._audit = audit
        self.followed: dict[int, list[tuple[str, Any]]] = {}
        """By optimizer: the names of such modules and weak references to them."""
        self._found: list[Sign] = []

    def stepped(self, optimizer: Any, seen: Seen) -> None:
        """An optimizer has stepped for the first time, or again while a module of it is followed."""
        if seen.steps == 1:
            held = {id(p) for p in parameters_of(optimizer)}
            found = [(name, weakref.ref(m)) for name, m in self._modules() if self._contradicts(m, held)]
            if found:
                self.followed[seen.id] = found
        elif seen.steps >= JUDGED and seen.id in self.followed:
            held = {id(p) for p in parameters_of(optimizer)}
            alive = [(name, m()) for name, m in self.followed.pop(seen.id)]
            still = [(name, m) for name, m in alive if m is not None and self._contradicts(m, held)]
            if still:
                self._tell(seen, still)

    def _modules(self) -> list[tuple[str, Any]]:
        """The modules with such an attribute that are held by a local name of the user's running functions, or by an
        attribute of their ``self``, or lie inside of those."""
        module = self._audit.torch.nn.Module
        found: list[tuple[str, Any]] = []
        seen: set[int] = set()
        innermost = _getframe(2)
        try:
            for frame in user_frames(innermost):
                for name, value in list(frame.f_locals.items()):
                    around = [(name, value)]
                    if not issubclass(type(value), module) and name == "self":
                        around = list(getattr(value, "__dict__", {}).items())
                    for own, root in around:
                        if issubclass(type(root), module):
                            found += [(n, m) for n, m in _inside(str(own), root, seen) if type(_flag(m)) is bool]
        finally:
            forget_locals(innermost)
        return found

    def _contradicts(self, module: Any, held: set[int]) -> bool:
        """Whether every parameter of the module is in the optimizer and none does what the module's flag says."""
        flag, mine = _flag(module), _parameters(module)
        if type(flag) is not bool or not mine:
            return False
        return all(id(p) in held and p.requires_grad is not flag and (flag or p.grad is not None) for p in mine)

    def _tell(self, seen: Seen, modules: list[tuple[str, Any]]) -> None:
        audit = self._audit
        audit.snapshot()
        step = audit.journal.latest("step", seen.id)
        sign = Sign("flag-of-module", frames_of(step.raw, audit.witness.cwd) if step is not None else [])
        value = _flag(modules[0][1])
        same = [(name, m) for name, m in modules if _flag(m) is value]
        mine = {id(p) for _, m in same for p in _parameters(m)}
        sign.parameters = sorted(audit.names[i] for i in mine if i in audit.names)
        sign.optimizer, sign.count = seen.id, seen.steps
        sign.facts = {
            "names": sorted({name for name, _ in same}),
            "value": value,
            "stops": [] if value else sign.parameters,
        }
        self._found.append(sign)
        audit.tell_early()

    def signs(self) -> list[Sign]:
        """What was found; nothing takes it back."""
        return self._found


def _flag(module: Any) -> Any:
    return module.__dict__.get(FLAG)


def _inside(name: str, root: Any, seen: set[int]) -> Iterator[tuple[str, Any]]:
    """A module and those in it by their own names, each once. Calls nothing that a class may override."""
    todo = [(name, root)]
    while todo and len(seen) < MOST_MODULES:
        name, module = todo.pop()
        if module is not None and id(module) not in seen:
            seen.add(id(module))
            yield name, module
            todo += (module.__dict__.get("_modules") or {}).items()


def _parameters(module: Any) -> list[Any]:
    inside = (m.__dict__.get("_parameters") or {} for _, m in _inside("", module, set()))
    return [p for parameters in inside for p in parameters.values() if p is not None]


# Parameters that are frozen while their optimizer steps: since its first step, or again after they were trained.

AGAIN = 3
"""Steps of the last phase before it is judged."""
MOST_CHANGES = 3


class _Followed:
    """One frozen parameter in the place of all: which way it was switched last, how often, and the steps since."""

    __slots__ = ("changes", "event", "on", "ref", "since", "told", "trained")

    def __init__(self, parameter: Any) -> None:
        self.ref = weakref.ref(parameter)
        self.on = False
        self.trained = False
        self.told = False
        self.changes = self.since = 0
        self.event = -1


class Refrozen:
    """``frozen-again``: ``parameters`` take no part any more; ``stack`` is a step that leaves them out. Whether it is
    meant, the source has to tell. ``frozen-throughout``: they never took part; weak, for so is many a backbone."""

    def __init__(self, audit: Audit) -> None:
        self._audit = audit
        self.followed: dict[int, _Followed] = {}
        """By optimizer; those that held nothing frozen at their first step are not in it."""
        self._found: dict[int, tuple[_Followed, Sign]] = {}

    def stepped(self, optimizer: Any, seen: Seen) -> None:
        """An optimizer has stepped."""
        if seen.steps == 1:
            frozen = next((p for p in parameters_of(optimizer) if not p.requires_grad), None)
            if frozen is not None:
                self.followed[seen.id] = _Followed(frozen)
            return
        followed = self.followed.get(seen.id)
        parameter = followed.ref() if followed is not None else None
        if followed is None or parameter is None or followed.changes > MOST_CHANGES:
            return
        followed.since += 1
        if parameter.requires_grad is not followed.on:
            followed.on = parameter.requires_grad
            followed.changes += 1
            followed.since = 0
            followed.event = self._audit.journal.count
        if followed.on:
            followed.trained = followed.trained or parameter.grad is not None
        elif followed.changes == 2 and followed.trained and followed.since == AGAIN and not followed.told:
            followed.told = True
            self._tell(optimizer, seen, followed, "frozen-again")
        elif not followed.changes and followed.since == AGAIN:
            self._tell(optimizer, seen, followed, "frozen-throughout")

    def _tell(self, optimizer: Any, seen: Seen, followed: _Followed, kind: str) -> None:
        audit = self._audit
        audit.snapshot()
        step = audit.journal.latest("step", seen.id)
        sign = Sign(kind, frames_of(step.raw, audit.witness.cwd) if step is not None else [])
        sign.weak = kind == "frozen-throughout"
        mine = [p for p in parameters_of(optimizer) if not p.requires_grad]
        sign.parameters = sorted(audit.names[id(p)] for p in mine if id(p) in audit.names)
        sign.optimizer, sign.event, sign.count = seen.id, followed.event, AGAIN
        self._found[seen.id] = (followed, sign)
        if not sign.weak:
            audit.tell_early()

    def signs(self) -> list[Sign]:
        """Those that stayed so: who takes turns is heard of no more."""
        changes = {"frozen-again": 2, "frozen-throughout": 0}
        return [sign for followed, sign in self._found.values() if followed.changes == changes[sign.kind]]
