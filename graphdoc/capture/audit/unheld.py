"""What gets gradients and is in no optimizer: parameters, buffers, results that a module keeps, layers made anew."""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Callable, Iterable
from functools import cache
from itertools import islice
from operator import ne
from types import FunctionType
from typing import Any

from graphdoc.capture.audit.flags import modules_at_hand
from graphdoc.capture.audit.hidden import held_beside, inside, modules_inside, unregistered
from graphdoc.capture.audit.moved import is_read_whole, values_of
from graphdoc.capture.audit.watch import ENOUGH, FEW, MOST_TRAININGS, At, EngineCall, Watch
from graphdoc.capture.events.journal import Noted, Seen
from graphdoc.capture.graph import walk
from graphdoc.capture.graph.summands import SCALING, is_number, terms_of
from graphdoc.capture.places import stacks
from graphdoc.capture.places.code_places import begins_at, is_users, shown_file
from graphdoc.capture.places.frames import plain
from graphdoc.capture.tensors.facts import grad_fn_of, held_by, instances_of, is_training, parameters_of, shape_of
from graphdoc.capture.tensors.living import Ref
from graphdoc.capture.tensors.number_facts import is_zero, numbers_of
from graphdoc.evidence import Sign

# Attributes and buffers of a module that are results of an operation on a ``Parameter``, which nothing else has any
# more. A name that was a buffer before stays one when a plain tensor is assigned to it.

DEEPEST = 4
"""Operations between the parameter and what is kept of it: ``Parameter(x).to(device) * 0.1`` has two."""


def converted(torch: Any, unheld: dict[int, Any], held: set[int]) -> tuple[Any, Any, dict[str, Any]] | None:
    """The parameter of a ``kept-result``, the node that computed the attribute, and the ``class`` and ``attribute``; an
    optimizer holds other parameters of that module.

    Args:
        unheld: parameters that get gradients, are in no optimizer and belong to no module, by id.
        held: ids of those that are in an optimizer.
    """
    module = torch.nn.Module
    for owner in filter(is_users, instances_of(module)):
        for name, value in [*owner.__dict__.items(), *(owner.__dict__.get("_buffers") or {}).items()]:
            node = grad_fn_of(value) if type(value) is torch.Tensor else None
            leaf = _leaf_behind(node)
            if leaf is not None and id(leaf) in unheld and held_beside([owner], held, module):
                return leaf, node, {"class": type(owner).__qualname__, "attribute": name}
    return None


def _leaf_behind(node: Any) -> Any:
    """The one leaf that a result was computed from, in a few operations that took nothing else with a graph."""
    for _ in range(DEEPEST):
        following = walk.inputs_of(node) if node is not None else []
        if len(following) != 1:
            return None
        node = following[0]
        if (leaf := getattr(node, "variable", None)) is not None:
            return leaf
    return None


# Buffers that require gradients and get them at every backward call, of modules of which an optimizer has the rest. A
# buffer is what nobody trains and ``requires_grad`` is what somebody trains: one of the two was not meant.


def flagged_buffers(torch: Any, loose: dict[int, Any], held: set[int]) -> tuple[dict[str, Any], Any] | None:
    """The buffers of one module among ``loose``, by name, and that module, of which an optimizer holds parameters."""
    module = torch.nn.Module
    for owner in filter(is_users, instances_of(module)):
        mine = {name: b for name, b in (owner.__dict__.get("_buffers") or {}).items() if id(b) in loose}
        if mine and held_beside([owner], held, module):
            return mine, owner
    return None


# Parameters that get gradients and are in no optimizer, while an optimizer holds others in their place. A parameter
# without optimizer is nothing by itself: a backbone that is not trained gets gradients all the same. What is told
# needs more: the optimizer holds parameters that no module has any more, or the parameter is a weight of the loss.

FLAG = "assign_to_params_buffers"
"""What ``load_state_dict(state, assign=True)`` leaves in the metadata of ``state``: later loads of it assign too."""
MOST_JUDGED = 4
"""Searches through everything that is alive, in one run."""
MOST_LOOKS = 2
"""Times that the look at backward calls is taken up again for one optimizer."""
MOST_CANDIDATES = 400
MOST_PLACES = 4
"""Places at which forwards make parameters that are told."""
MOST_PLAIN = 60
"""Leaves that are no parameters and are followed at a time."""
MOST_LOADED = 100_000
"""Parameters that are known to come from elsewhere."""
MOST_NETWORKS = 60
"""Those whose loading is counted."""
MOST_NUMBERS = 200
"""Single numbers that a loss is followed through."""
MOST_ALIKE = 0.9
"""The part of a parameter's numbers that are different ones where they were drawn."""
LEAST_DRAWN = 16


class _Candidate:
    """A parameter that was in no optimizer when a backward call reached it."""

    __slots__ = ("adds", "count", "is_weight", "ref", "since", "values", "version")

    def __init__(self, parameter: Any, since: int = 0) -> None:
        self.ref = Ref(parameter)
        self.since = since
        """How many steps there had been."""
        self.version = parameter._version
        self.values = values_of(parameter)
        self.count = 0
        self.adds = True
        """No backward call but the first one has found it without a gradient."""
        self.is_weight = False

    def stands(self, bounded: bool) -> Any:
        """The parameter, if it is alive and nobody has written to it, see ``is_written``; else None."""
        p = self.ref()
        return None if p is None or not p.requires_grad or p.grad is None or self.is_written(p, bounded) else p

    def is_written(self, parameter: Any, bounded: bool) -> bool:
        """Whether somebody has written to it, or may have; ``bounded``: other numbers than it had."""
        if not self.values or values_of(parameter) != self.values:
            return True
        return not is_read_whole(parameter) if bounded else parameter._version != self.version


class Unheld(Watch):
    """``held-stale``: an optimizer's parameters belong to no module any more (``facts["gone"]``), or they get nothing,
    and others of the same shapes do, which were ``born`` behind it, if that was seen.
    ``unheld-weight``: what weighs the terms of the loss (``facts["weights"]``) is in
    no optimizer. ``unheld-bounded``: the call ``other`` bounds these gradients alone; ``facts["place"]`` is
    ``"added"`` where it bounds others too and nothing ever clears these.
    ``unheld-followed``: another network is loaded from them again and again. ``parameters`` are those
    that nobody steps, ``stack`` a backward call that reaches them, ``optimizer`` the one that steps meanwhile.
    ``unregistered``: they lie in a plain list or dict that is an attribute of a module. ``empty-group``: ``optimizer``
    steps and has a group of parameters with nothing in it (``facts["empty"]`` of ``facts["groups"]``); whether that is
    meant, the source has to tell. ``facts["spent"]``: the first lines of the generators that had ended before.
    ``facts["walked"]``: the program has put an iterator there, and a step has gone through it already.
    ``suspect-untied``: parameters of the shape of one that ``optimizer`` steps; weak, a second network has such.
    ``unheld-fresh``: never loaded and in training mode, all of them are taken together with what is made of parameters
    that optimizers step. ``facts["place"]``: what comes of it goes on to further ones (``"between"``), a class of the
    user's own has drawn their values (``"drawn"``), or they belong to no module at all (``"bare"``). Or they are all
    that modules around others have themselves, and optimizers hold the rest (``"split"``). ``facts["bounded"]``: they
    are written to and keep their numbers; whether by bounds alone, the source has to tell.
    ``suspect-ungiven``: all that get gradients beside ``optimizer``; weak, a network may be left alone on purpose.
    ``facts`` say whether they were ``loaded``, whether they were ``frozen`` when an optimizer first stepped, and where
    they were ``born``, if forwards made all behind the optimizer, as a part of what it holds.
    ``ungiven``: the same, where the user asks for weak findings too."""

    def set_up(self) -> None:
        self._candidates: dict[int, _Candidate] = {}
        self._plain: dict[int, _Candidate] = {}
        """Leaves that are no parameters."""
        living = self._journal.living
        self._asked: set[int] = living.forgetting(set())
        """Leaves of which a grad call was asked the gradient, by id."""
        self._reached: set[int] = living.forgetting(set())
        self._together: set[int] = living.forgetting(set())
        """Ids of the leaves of the noted call: ``_reached`` has those of an earlier training as well."""
        self._had: dict[int, int] = {}
        """By optimizer: how often the look has been taken up since both ends of its parameters had gradients."""
        self._looks = 0
        self._loads: dict[tuple[int, ...], tuple[int, list[Ref]]] = {}
        """How often a network has been loaded when there had been steps, by the ids of its parameters."""
        self._ready = False
        self._judged = self._searched = 0
        self._noted: Noted | None = None
        self._told: list[int] = []
        self._gone: list[Ref] = []
        """What an optimizer holds under a name of its own, and nothing has used so far."""
        self._empty: list[Sign] = []
        self._walked: weakref.WeakKeyDictionary[Any, list[Any]] = weakref.WeakKeyDictionary()
        """By optimizer: the iterators that stood in its groups at the step before; none of them any more once told."""
        self._suspects: list[tuple[list[int], Sign]] = []
        self._frozen: set[int] = living.forgetting(set())
        """Parameters of modules at hand that required no gradients when one of the first optimizers first stepped."""
        self.brought: set[int] = living.forgetting(set())
        """Parameters whose values came from a file or another module."""
        self._flagged: stacks.Stack | None = None
        """The latest load that has written into the metadata of a state that its parameters are to be replaced."""
        self._replacing: list[tuple[set[int], stacks.Stack, stacks.Stack | None, bool]] = []
        """The latest loads that replace parameters, these (ids); such a load before; whether the call says so."""
        self._behind: dict[int, bool] = living.forgetting({})
        """Parameters behind what optimizers step, by id; and whether they are before further such ones."""

    @property
    def waits(self) -> bool:
        """Whether the next backward call is to be looked at."""
        return self._looks > 0

    # -- watching ------------------------------------------------------------------------------------------------

    def called(self, call: EngineCall) -> None:
        audit = self._audit
        if self._looks:
            self._looks -= 1
            audit.witness.looking = self.waits or audit.targets.waits
        held = audit.journal.held(stepped=True)
        if not held or self._judged >= MOST_JUDGED or self._found:
            return
        tensor, kind = audit.torch.Tensor, audit.torch.nn.Parameter
        weights = cache(lambda: _weights(call.outputs, held))  # walked for once, and only for what is new
        plain, unheld = ([t for i, t in call.leaves.items() if i not in held and type(t) is k] for k in (tensor, kind))
        if plain or self._plain:  # most are made anew for each call, and those are let go
            self._plain = {i: c for i, c in self._plain.items() if c.ref() is not None}
            if [t for t in plain if self._count(self._plain, t, MOST_PLAIN, weights)]:
                self._ready, self._noted = True, call.noted
        if not unheld or audit.torch._C._len_torch_dispatch_stack():
            return
        self._noted = call.noted
        self._together.clear()
        self._together.update(call.leaves)
        self._reached.update(call.leaves)
        ready = {id(p) for p in unheld if self._count(self._candidates, p, MOST_CANDIDATES, weights)}
        if ready:
            self._ready = True
            self._behind |= _behind(call.order, ready, held)

    def _count(self, known: dict[int, _Candidate], leaf: Any, most: int, weights: Callable[[], set[int]]) -> bool:
        """A call reaches this leaf: whether it has been reached often enough by now."""
        one = known.get(id(leaf))
        if one is None or one.ref() is not leaf:
            if len(known) >= most:
                return False
            one = known[id(leaf)] = _Candidate(leaf, self._journal.steps)
            single = known is self._plain or (leaf.numel() == 1 and leaf._version == 0)
            one.is_weight = single and id(leaf) in weights()
        one.adds &= not one.count or (leaf.grad is not None and not is_zero(leaf.grad))
        one.count += 1
        return one.count == ENOUGH

    def asked(self, call: EngineCall) -> None:
        if len(self._asked) < MOST_CANDIDATES:
            asked = [t for t in call.inputs if t is not None]
            self._journal.living.note(asked)
            self._asked.update(map(id, asked))

    def loaded(self, module: Any, state: Any, assign: bool) -> None:
        if len(self.brought) >= MOST_LOADED:
            return
        parameters = list(module.parameters())
        metadata = getattr(state, "_metadata", None)
        if assign or (isinstance(metadata, dict) and any(FLAG in (m or ()) for m in metadata.values())):
            here = stacks.stack_here(4)  # loaded < Audit.loaded < the inserted callback < the function
            flagged = self._flagged
            if assign and metadata is not None:
                self._flagged = here
            self._replacing = [*self._replacing[1 - MOST_PLACES :], ({*map(id, parameters)}, here, flagged, assign)]
        self._journal.living.note(parameters)
        self.brought.update(map(id, parameters))
        ids = tuple(map(id, parameters))
        known = self._loads.get(ids)
        if self._journal.steps and (known or len(self._loads) < MOST_NETWORKS):
            times, refs = known or (0, [Ref(p) for p in parameters])
            self._loads[ids] = times + 1, refs
            self._ready |= times + 1 == FEW

    def wants(self, _seen: Seen) -> bool:
        return self._ready or any(self._walked.values())

    def stepped(self, optimizer: Any, seen: Seen) -> None:
        if seen.steps == 1 and seen.id < MOST_TRAININGS:  # a program may make one for each of its steps
            modules = [m for _, m in modules_at_hand(self._audit.torch.nn.Module, self._audit.running())]
            own = (p for m in modules for p in (m.__dict__.get("_parameters") or {}).values() if p is not None)
            frozen = [p for p in own if not p.requires_grad]
            self._journal.living.note(frozen)
            self._frozen.update(map(id, frozen))
        groups = optimizer.param_groups
        if type(groups) is not list or not groups or self._judged >= MOST_JUDGED or self._found:
            return
        held = [held_by(group) for group in groups]
        given = (group["params"] for group, listed in zip(groups, held, strict=True) if listed is not group["params"])
        # A class of the program's own may begin anew each time.
        once = [o for o in given if type(getattr(type(o), "__iter__", None)) is not FunctionType]
        if once or (self._walked and optimizer in self._walked):
            self._walk(optimizer, seen, once)
        if seen.steps == ENOUGH and not all(held):
            empty = [i for i, listed in enumerate(held) if not listed]
            spent = self._journal.spent(optimizer)
            cwd = self._audit.witness.cwd
            facts: dict[str, Any] = {"empty": empty, "groups": len(groups)}
            facts["spent"] = [begins_at(code, cwd) for i, code in spent.items() if i in empty]
            self._empty.append(self._sign("empty-group", None, optimizer=seen.id, count=ENOUGH, facts=facts))
            self._audit.tell_early()
        filled = [*filter(None, held)]
        if not filled:
            return
        first, last = filled[0], filled[-1]
        had = self._had.get(seen.id, -1)
        if first[0].grad is not None and last[-1].grad is not None:
            if had < 0:
                self._had[seen.id] = 0
        elif 0 <= had < MOST_LOOKS and not self._looks:
            self._had[seen.id] = had + 1
            self._reached.clear()
            self.look_again()
        if seen.look == 2 * seen.steps and not self._looks:
            self.look_again()  # ever more rarely: a layer may have been unfrozen
        if self._ready and seen.steps > ENOUGH:
            self._ready = False
            self._judge()

    def _walk(self, optimizer: Any, seen: Seen, once: list[Any]) -> None:
        """A step has gone through these iterators. It is the first that does, or there was nothing left of one."""
        before, groups = self._walked.get(optimizer), optimizer.param_groups
        empty = [i for i, group in enumerate(groups) if any(group["params"] is o for o in before or ())]
        self._walked[optimizer] = once if before != [] and not empty else []
        if empty:
            facts = {"empty": empty, "groups": len(groups), "walked": True}
            step = self._journal.latest("step", seen.id)
            self._empty.append(self._sign("empty-group", step, optimizer=seen.id, count=seen.steps, facts=facts))
            self._audit.tell_early()

    def look_again(self) -> None:
        """Look at the next backward calls."""
        self._looks = ENOUGH + 2
        self._audit.witness.looking = True

    def idle(self, leaves: Iterable[int]) -> set[int]:
        """Those of these (ids) that backward calls reach again and again, and that nobody trains: no living optimizer
        holds them, nobody has written to them or cleared what they were given."""
        known = {i: self._candidates[i] for i in leaves if i in self._candidates}
        if not known or self._searched >= MOST_JUDGED:
            return set()
        mine = set(self._standing(known))
        self._searched += bool(mine)
        return mine - alive(self._audit.torch)[0] if mine else mine

    def _standing(self, candidates: dict[int, _Candidate], bounded: bool = False) -> dict[int, Any]:
        """Those that backward calls have reached often enough, and that nobody has written to."""
        often = {i: c.stands(bounded) for i, c in candidates.items() if c.count >= ENOUGH}
        return {i: p for i, p in often.items() if p is not None}

    # -- judging -------------------------------------------------------------------------------------------------

    def _judge(self) -> None:
        audit = self._audit
        self._judged += 1
        running = audit.running()
        held, owners = alive(audit.torch)
        known = {i: c for i, c in self._candidates.items() if i not in held}
        mine, live = self._standing(known), self._journal.live()
        self._judge_plain(held)
        if not mine:
            self._tell_fresh(live, self._standing(known, bounded=True), owners, bounded=True)
        if not mine or self._found:
            return
        loose, mine = mine, {i: p for i, p in mine.items() if i in owners}
        parted = {i: p for i, p in loose.items() if i not in owners}
        kept = converted(audit.torch, parted, held) if parted and live else None
        if kept is not None:
            leaf, node, facts = kept
            self._tell_of("kept-result", stacks.stack_of(node), self._noted, live[0][0], [id(leaf)], facts)
            return
        if self._tell_stale(live, mine, owners):
            return
        wanted = self._tell_wanted(live, mine)
        if mine and not wanted and not self._suspects:
            self._doubt(live, mine, owners, held_beside([owners[i] for i in mine], held, audit.torch.nn.Module))
        hidden = unregistered(audit.torch, loose, held) if running and not wanted else []
        hidden = [one for one in hidden if not any(i in self.brought for i in one.parameters)]
        given = _whose(live, hidden[0].beside) if hidden else None
        if given is not None:
            self._tell("unregistered", given, {i: p for one in hidden for i, p in one.parameters.items()})
            for one in hidden:
                one.facts["file"] = shown_file(one.facts["file"], audit.witness.cwd)
                one.facts["names"] = audit.named(one.parameters)
            for sign in self._found:
                sign.facts = {"classes": [one.facts for one in hidden]}
            return
        if running:
            self._tell_weights(live, mine, owners, held)
        if not self._found:
            self._tell_split(live, mine, owners)
            self._tell_fresh(live, loose, owners)
            self._tell_bounded(live, {i: p for i, p in mine.items() if self._candidates[i].adds}, False)

    def _tell_stale(self, live: list[tuple[Seen, Any]], mine: dict[int, Any], owners: dict[int, Any]) -> bool:
        """Tell of those of ``mine`` in whose place an optimizer holds what nothing has any more; whether one does."""
        audit = self._audit
        for seen, optimizer in live:
            if seen.steps <= ENOUGH or not self._is_stale(optimizer, mine, owners):
                continue
            audit.snapshot()
            given = audit.journal.was_given
            gone = [p for p in parameters_of(optimizer) if id(p) not in owners and given(id(p))]
            if gone and any(self._are_behind(seen, gone, parameters_of(o)) for s, o in live if s is not seen):
                continue  # what has taken their place is trained by an optimizer of its own
            rest = {id(p) for p in parameters_of(optimizer) if id(p) in owners} if gone else set()
            in_place = _around(audit.torch.nn.Module, mine, rest) if rest else mine
            if not in_place and rest & self._together:  # networks of one loss that no module holds together
                shapes = {p.shape for p in gone}
                in_place = {i: p for i, p in mine.items() if i in self._together and p.shape in shapes}
            if not in_place:
                continue  # of other networks than the one that it holds the rest of
            used = sum(id(p) in audit.names for p in gone) >= min(len(gone), 2)  # a loop's variable is one
            born = self._born(seen, in_place)[:1]
            if gone and used and (born or not any(id(p) in audit.journal.with_grad for p in gone)):
                # The list that the optimizer was made from names them too: what stands in their place tells.
                used, self._gone = not are_twins(gone, in_place.values()), [] if born else [Ref(p) for p in gone]
            if not gone or not used:
                replaced = self._replaced_by({id(p) for p in gone})
                self._tell("held-stale", seen, in_place, gone=bool(gone), born=born, **replaced)
            return True
        return False

    def _replaced_by(self, gone: set[int]) -> dict[str, Any]:
        """The load without ``assign=True`` that has put others in the place of these, as the state's metadata asks for,
        and the one that has left that there, if it was seen."""
        loads = [one for one in self._replacing if not one[0].isdisjoint(gone)]
        if not loads or loads[-1][3]:
            return {}
        _, here, before, _ = loads[-1]
        return {"load": plain(self._frames(here)), "flagged": plain(self._frames(before))}

    def _are_behind(self, seen: Seen, gone: list[Any], others: list[Any]) -> bool:
        """Whether others of like shapes were made behind this optimizer."""
        born = all(self._journal.born_behind(id(p), seen.ref()) is not None for p in others)
        return born and are_twins(gone, others)

    def _tell_weights(
        self, live: list[tuple[Seen, Any]], mine: dict[int, Any], owners: dict[int, Any], held: set[int]
    ) -> None:
        """Tell of those of ``mine`` that weigh the terms of a loss, in modules of which no optimizer holds anything."""
        weights = {i: p for i, p in mine.items() if self._candidates[i].is_weight and is_users(owners[i])}
        steps = [s for s, o in live if any(id(p) in owners and id(p) in self._reached for p in parameters_of(o))]
        whole = {id(p): p for i in weights for p in owners[i].parameters()}
        if weights and len(steps) == 1 and not whole.keys() & held:
            self._tell("unheld-weight", steps[0], weights, {i: p for i, p in whole.items() if p.requires_grad})

    def _tell_wanted(self, live: list[tuple[Seen, Any]], mine: dict[int, Any]) -> bool:
        """Tell of those of ``mine`` whose gradients somebody waits for, if there are any."""
        followed, beside = self._followed(mine), _whose(live, self._together)
        if followed and beside is not None:
            self._tell("unheld-followed", beside, followed)
            return bool(self._found)
        return self._tell_bounded(live, mine, True)

    def _tell_bounded(self, live: list[tuple[Seen, Any]], mine: dict[int, Any], alone: bool) -> bool:
        """Tell of those of ``mine`` that one call bounds ``alone``; or, of these that nobody clears, with others."""
        found = self._audit.clips.of_nobody(set(mine), alone) if not self._found else None
        if found is None:
            return False
        frames, ids, stepping = found
        behind = next((s for s, _ in live if s.id == stepping), None)
        shapes = {tuple(p.shape) for _, o in live for p in parameters_of(o)} if alone else set()
        # An optimizer of copies in another dtype holds every shape.
        if behind is not None and any(tuple(mine[i].shape) not in shapes for i in ids):
            facts = {} if alone else {"place": "added"}
            self._tell("unheld-bounded", behind, {i: mine[i] for i in ids}, other=frames, **facts)
        return bool(self._found)

    def _tell_split(self, live: list[tuple[Seen, Any]], mine: dict[int, Any], owners: dict[int, Any]) -> None:
        """Tell of those of ``mine`` that modules around others have themselves, where an optimizer holds all of the
        innermost modules and nothing of these: it was made from a list of layers."""
        apart = self._asked | self.brought
        own = {i: p for i, p in mine.items() if i not in apart and is_training(owners[i])}
        held = {i for seen, _ in live if seen.steps for i in seen.parameters}
        for whole in instances_of(self._audit.torch.nn.Module) if own else ():
            direct, innermost = parted(whole) if is_users(whole) else ({}, {})
            several = len({id(owners[i]) for i in direct if i in own}) > 1
            if several and direct.keys() <= own.keys() and innermost.keys() and innermost.keys() <= held:
                beside = _whose(live, set(innermost))
                if beside is not None:
                    self._tell("unheld-fresh", beside, direct, place="split")
                return

    def _tell_fresh(
        self, live: list[tuple[Seen, Any]], loose: dict[int, Any], owners: dict[int, Any], bounded: bool = False
    ) -> None:
        """Tell of those of ``loose`` that are one part of what is trained: of a layer that is trained in part, the rest
        is left by choice, and more than the optimizers hold is what is adapted by something small."""
        held = {id(p): p.numel() for _, o in live for p in parameters_of(o)}
        beside = _whose(live, self._together)
        if beside is None or self._found:
            return
        apart = self._asked | self.brought
        known = {i: p for i, p in loose.items() if i in self._behind and i not in apart}
        own = {i: p for i, p in known.items() if not is_zero(p.grad)}  # times zero keeps on a graph
        layers = {i: owners[i].__dict__["_parameters"] for i in own if i in owners and is_training(owners[i])}
        inner = {i: own[i] for i, layer in layers.items() if held.keys().isdisjoint(map(id, layer.values()))}
        place, mine = "bare", {i: p for i, p in own.items() if i not in owners}
        if not mine:
            # Whole layers: what a recurrent one applies to its first state, it applies to data.
            between = {id(owners[i]) for i in inner if self._behind[i]}
            place, mine = "between", {i: p for i, p in loose.items() if i in owners and id(owners[i]) in between}
        if not mine:
            # Drawn: hardly any two numbers are equal; those of filters and tables repeat themselves.
            users = ((i, p, numbers_of(p)) for i, p in inner.items() if is_users(owners[i]))
            different = ((i, p, int(n.unique().numel())) for i, p, n in users if n is not None)
            drawn = {i: p for i, p, count in different if count > max(MOST_ALIKE * p.numel(), LEAST_DRAWN)}
            place, mine = "drawn", drawn
        if mine and sum(p.numel() for p in mine.values()) < sum(held.values()):
            self._tell("unheld-fresh", beside, mine, place=place, bounded=bounded)

    def _followed(self, mine: dict[int, Any]) -> dict[int, Any]:
        """Those of ``mine`` whose numbers a network of nothing else has been loaded with again and again; what has been
        loaded itself came trained."""
        equal = self._audit.torch.equal
        numbers = {i: numbers_of(p) for i, p in mine.items() if i not in self.brought}
        known = {i: n for i, n in numbers.items() if n is not None}
        for times, refs in self._loads.values():
            copies = [n for ref in refs if (c := ref()) is not None and (n := numbers_of(c)) is not None]
            if times < FEW or not copies or len(copies) < len(refs) or any(id(ref()) in mine for ref in refs):
                continue
            twins = [
                next((i for i, n in known.items() if n.shape == c.shape and n.dtype == c.dtype and equal(n, c)), None)
                for c in copies
            ]
            if None not in twins and len(set(twins)) == len(twins):
                return {i: mine[i] for i in twins if i is not None}
        return {}

    def _judge_plain(self, held: set[int]) -> None:
        """Whether any of the leaves that are no parameters are buffers of what an optimizer trains."""
        audit = self._audit
        enough = self._standing(self._plain).items()
        loose = {i: t for i, t in enough if i not in self._asked and not t._backward_hooks}
        live = audit.journal.live()
        known = flagged_buffers(audit.torch, loose, held) if loose and live else None
        if known is None:
            weights = {i: t for i, t in loose.items() if self._plain[i].is_weight}
            since = min((self._plain[i].since for i in weights), default=0)
            training = [s for s, _ in live if s.span[1] > since]
            if weights and len(training) == 1:
                self._tell("unheld-weight", training[0], weights, weights)
            return
        buffers, owner = known
        mine = {id(b) for b in buffers.values()}
        stepping = next((s for s, o in live if mine.isdisjoint(map(id, parameters_of(o)))), None)
        if stepping is not None:
            facts = {"class": type(owner).__qualname__, "buffers": sorted(buffers)}
            facts |= begins_at(type(owner).__init__.__code__, audit.witness.cwd)
            self._tell_of("flagged-buffer", self._noted, None, stepping, list(mine), facts)

    def _tell_of(self, kind: str, at: At, other: At, seen: Seen, told: list[int], facts: dict[str, Any]) -> None:
        """Tell this of what is known by its class; ``seen`` steps meanwhile."""
        self._audit.snapshot()
        self._told = told
        self._report(self._sign_at(kind, at, other, optimizer=seen.id, count=ENOUGH, facts=facts))

    def _doubt(
        self, live: list[tuple[Seen, Any]], mine: dict[int, Any], owners: dict[int, Any], beside: set[int]
    ) -> None:
        """Note ``mine``, beside which an optimizer holds these of the same networks, if any."""
        since = min(self._candidates[i].since for i in mine)
        training = [(s, o) for s, o in live if s.span[1] > since]  # gradients that come later are not its business
        held = [p for _, o in training for p in parameters_of(o) if p.requires_grad]
        if len(training) == 1 and all(p.grad is not None or id(p) in self._reached for p in held):
            shapes = {tuple(p.shape) for p in held}  # it may have been one with a parameter that is stepped
            self._note("suspect-untied", training[0][0], [i for i, p in mine.items() if tuple(p.shape) in shapes])
        seen = next((s for ids in (beside, self._together, self._reached) if (s := _whose(training, ids))), None)
        if seen is not None:
            part = len(_around(self._audit.torch.nn.Module, mine, set(seen.parameters))) == len(mine)
            facts = {
                "loaded": any(i in self.brought for i in mine),
                "frozen": self._frozen >= mine.keys(),
                "born": self._born(seen, mine, "forward") if part else [],
            }
            self._note("suspect-ungiven", seen, list(mine), facts)
            if "audit-all" in self._audit.witness.words:
                self._note("ungiven", seen, list(mine))

    def _born(self, seen: Seen, mine: dict[int, Any], within: str = "") -> list[list[dict[str, Any]]]:
        """Where all of ``mine`` were made behind this optimizer: of each the user's frames, or those from a function
        of this name on."""
        stacks = [self._journal.born_behind(i, seen.ref()) for i in mine]
        if None in stacks:
            return []
        users = [[f for f in self._frames(stack) if f.user] for stack in stacks]
        first = [next((n for n, f in enumerate(u) if f.function.endswith(within)), -1) for u in users]
        found = [plain(u[n:]) for u, n in zip(users, first, strict=True)] if -1 not in first else []
        return [f for i, f in enumerate(found) if f not in found[:i]][:MOST_PLACES]

    def _note(self, kind: str, seen: Seen, loose: list[int], facts: dict[str, Any] | None = None) -> None:
        """Note these as what only the source can judge."""
        if not loose or self._noted is None:
            return
        sign = self._sign(kind, self._noted, None, loose, optimizer=seen.id, count=ENOUGH, weak=True)
        sign.facts = facts or {}
        self._suspects.append((loose, sign))

    def _is_stale(self, optimizer: Any, mine: dict[int, Any], owners: dict[int, Any]) -> bool:
        """Whether the optimizer holds parameters without gradient that nothing has any more; or a twin of ``mine``."""
        held = parameters_of(optimizer)
        idle = [p for p in held if p.grad is None and id(p) not in self._reached]
        given = self._journal.was_given
        if any(given(id(p)) and id(p) not in owners for p in idle):
            return not any(p.requires_grad and id(p) in owners for p in idle)  # what is frozen waits for nothing
        never = len(idle) == len(held) and not any(id(p) in self._journal.with_grad for p in held)
        return never and sorted(tuple(p.shape) for p in held) == sorted(tuple(p.shape) for p in mine.values())

    def _tell(
        self, kind: str, seen: Seen, mine: dict[int, Any], whole: Any = None, other: At = None, **facts: Any
    ) -> None:
        """Tell this of ``mine``, if they have names; what weighs a loss is a part of a ``whole``."""
        if kind != "held-stale":  # the names were read to find that
            self._audit.snapshot()
        names = [self._audit.names[i] for i in mine if i in self._audit.names]
        if names:
            self._told += mine
            facts = {"weights": names} if whole else facts
            sign = self._sign_at(kind, self._noted, other, optimizer=seen.id, count=ENOUGH, facts=facts)
            sign.parameters = self._audit.named(whole or mine)
            self._report(sign)

    def signs(self) -> list[Sign]:
        """What was found, unless another optimizer has been given it since: the training had a phase without it. Or the
        program has written to it, or asked for its gradient: it does so now and then."""
        held = self._journal.held()
        known = (self._plain.get(i) or self._candidates.get(i) for i in self._told if i not in self.brought)
        told = [(c, p) for c in known if c is not None and (p := c.ref()) is not None]
        bounded = any(s.facts.get("bounded") for s in self._found)
        written = any(c.is_written(p, bounded) for c, p in told)
        used = any(id(p) in self._journal.with_grad for ref in self._gone if (p := ref()) is not None)
        since = used or written or any(i in held or i in self._asked for i in self._told)
        followed = any(i in self.brought for i in self._told)
        found = [sign for sign in self._found if not since and not (followed and sign.kind == "unheld-fresh")]
        suspects = [sign for loose, sign in self._suspects if not any(i in held for i in loose)]
        return self._empty + found + suspects


def _whose(live: list[tuple[Seen, Any]], given: set[int]) -> Seen | None:
    """The first of these optimizers that has stepped and holds any of these parameters (ids)."""
    holding = (seen for seen, o in live if any(id(p) in given for p in parameters_of(o)))
    return next((seen for seen in holding if seen.steps), None)


def _weights(outputs: Any, held: set[int]) -> set[int]:
    """Ids of the leaves that weigh one of several terms of these losses: what they alone give multiplies what reaches
    others."""
    found = set[int]()
    terms = terms_of([n for t in outputs if hasattr(t, "grad_fn") and (n := grad_fn_of(t)) is not None])
    for term in terms if len(terms) > 1 else ():  # the whole loss has a scale, and none that is to be learned
        sides = walk.inputs_of(term)
        for side in sides if type(term).__name__ in SCALING and len(sides) > 1 else ():
            behind = [n for n, _ in islice(walk.nodes_behind([side]), MOST_NUMBERS)]
            leaves = {id(v) for n in behind if (v := getattr(n, "variable", None)) is not None}
            if len(behind) < MOST_NUMBERS and leaves.isdisjoint(held):
                found |= leaves
    return found


def _behind(order: walk.Graph, new: set[int], held: set[int]) -> dict[int, bool]:
    """Those of these leaves (ids) that are taken together with what is made of held ones, each with whether that is on
    the way to an operation that takes a further one. What is one number by then is a loss that is weighed."""
    if len(order) >= MOST_NODES:
        return {}
    taking = _Taking(order, new, held)
    # A single number weighs or shifts a loss: that is no layer behind these.
    layers = [n for n, leaf in order.leaves.items() if id(leaf) in held and leaf.numel() > 1]
    turned = [m for n in layers for m in taking.above[n] if type(order[m].node).__name__ == "TBackward0"]
    further = {m for n in (*layers, *turned) for m in taking.above[n]}
    beyond = bytearray(len(order))
    for n, m in reversed(list(walk.upward(order))):
        beyond[m] |= (beyond[n] or n in further) and not is_number(order[m].node)
    known = {id(leaf): taking.of([n]) for n, leaf in order.leaves.items() if id(leaf) in new}
    return {i: any(beyond[m] for m in ops) for i, ops in known.items() if ops and all(map(taking.trained, ops))}


def parted(whole: Any) -> tuple[dict[int, Any], dict[int, Any]]:
    """The parameters within a module that require gradients, by id: those that modules with children have themselves,
    and those of the innermost modules."""
    found: tuple[dict[int, Any], dict[int, Any]] = {}, {}
    for m in modules_inside(whole):
        own = [p for p in m.__dict__["_parameters"].values() if p is not None and p.requires_grad]
        found[not m.__dict__["_modules"]].update((id(p), p) for p in own)
    return found


def _around(module: type, mine: dict[int, Any], rest: set[int]) -> dict[int, Any]:
    """Of these parameters, by id, those that a living module has together with any of the rest of its network."""
    every = ({id(p) for p in inside(o)} for o in instances_of(module))
    together = set().union(*(ids for ids in every if ids & rest))
    return {i: p for i, p in mine.items() if i in together}


def in_their_place(torch: Any, mine: list[Any]) -> dict[int, Any]:
    """The parameters that have a gradient and no optimizer, by id, where no module has any of ``mine`` any more."""
    held, owners = alive(torch)
    if any(id(p) in owners for p in mine):
        return {}
    every = {i: p for i, owner in owners.items() for p in owner.__dict__["_parameters"].values() if id(p) == i}
    return {i: p for i, p in every.items() if i not in held and p.grad is not None}


def are_twins(old: Iterable[Any], new: Iterable[Any]) -> bool:
    """Whether each of these parameters has one in its place, of the same shape or of one that differs in one size; a
    single row of numbers is like any other."""
    before, now = (Counter(tuple(p.shape) for p in parameters) for parameters in (old, new))
    rest = [sorted((a - b).elements(), key=lambda s: (len(s), s)) for a, b in ((before, now), (now, before))]
    near = (len(a) == len(b) and sum(map(ne, a, b)) < 2 for a, b in zip(*rest, strict=False))
    return before.total() == now.total() and (now.total() > 1 or any(len(s) > 1 for s in now)) and all(near)


def alive(torch: Any) -> tuple[set[int], dict[int, Any]]:
    """Ids of the parameters that any living optimizer holds, and the living module of each parameter by its id."""
    made = (o for o in instances_of(torch.optim.Optimizer) if "param_groups" in o.__dict__)
    owners: dict[int, Any] = {}
    for module in instances_of(torch.nn.Module):
        for p in (module.__dict__.get("_parameters") or {}).values():
            if p is not None:
                owners.setdefault(id(p), module)
    return {id(p) for o in made for p in parameters_of(o)}, owners


# Layers that a forward makes anew: their parameters get gradients once, and are gone before a step could use them.

RENEWED = 4
"""Backward calls, each of which reaches new ones of the same shapes, the earlier ones being gone."""
MOST_NODES = walk.DEEP - 1
MOST_LINES = 12


class MadeAnew(Watch):
    """``made-anew``: ``stack`` is the operation that takes a new parameter together with what an optimizer trains,
    ``other`` the backward call, ``facts["shapes"]`` those of the new parameters, ``facts["lines"]`` all such
    places. What such a layer computes from data alone may be meant to be random."""

    def set_up(self) -> None:
        self._latest: list[Ref] = []
        self._shapes: list[list[int]] = []
        self._owners: list[Ref] = []
        """The modules that had the new ones of the call before the one that is judged."""
        self._rounds = 0
        self._wanted: set[tuple[int, ...]] = set()
        """Shapes of parameters whose gradients the program has asked for itself."""

    def asked(self, call: EngineCall) -> None:
        # A head that is adapted to one task by it is used up there.
        self._wanted.update(tuple(p.shape) for p in call.inputs if type(p) is self._audit.torch.nn.Parameter)

    def called(self, call: EngineCall) -> None:
        if self._found:
            return
        audit = self._audit
        held, kind = audit.journal.held(stepped=True), audit.torch.nn.Parameter
        if not held:
            return
        known = {id(p) for ref in self._latest if (p := ref()) is not None}
        new = [p for i, p in call.leaves.items() if i not in held and i not in known and type(p) is kind]
        shapes = sorted(list(p.shape) for p in new)
        again = bool(new) and not known and shapes == self._shapes
        self._rounds = self._rounds + 1 if again else 0
        self._latest, self._shapes = [Ref(p) for p in new], shapes
        if self._rounds < RENEWED - 1 or not self._wanted.isdisjoint(map(tuple, shapes)):
            return
        given, owners = alive(audit.torch)
        own = [owners[id(p)] for p in new if id(p) in owners]
        before = {id(m) for ref in self._owners if (m := ref()) is not None}
        self._owners = [Ref(m) for m in own]
        if self._rounds == RENEWED:
            self._rounds = 0
            # A module that was there before is not made anew: it is given another parameter. A copy that a loop
            # keeps and adapts is no part of what is trained; one that is gone was made by a forward.
            beside = all(held_beside([m], held, audit.torch.nn.Module) for m in own)
            if not beside or not before.isdisjoint(map(id, own)) or any(id(p) in given for p in new):
                return
            taken = _taken_with(call.order, {id(p) for p in new}, held)
            kept = [k for f in taken if (k := stacks.stack_of(f.node)) is not None]
            lines = {str(line): line for k in kept if (line := self._line(k))}
            if lines:
                facts = {"shapes": self._shapes, "lines": [*lines.values()][:MOST_LINES]}
                self._report(self._sign("made-anew", kept[0], call.noted, count=RENEWED + 1, facts=facts))


def _taken_with(order: walk.Graph, new: set[int], held: set[int]) -> list[walk.Found]:
    """The operations that take the new leaves, in the order of the program, where all of these take them together with
    what is made of held ones."""
    if len(order) >= MOST_NODES:
        return []
    taking = _Taking(order, new, held)
    found = taking.of(n for n, leaf in order.leaves.items() if id(leaf) in new)
    if not all(map(taking.trained, found)):
        return []  # what is applied to data as well measures how far two values are apart
    return sorted((order[n] for n in found), key=lambda f: f.sequence)


_BY_NUMBERS = {"AddBackward0", "SubBackward0", "RsubBackward1", "MulBackward0", "DivBackward0"}


def _takes_data(node: Any) -> bool:
    """Whether an operation takes what has no graph; a plain number is none: it makes no other shape."""
    given = walk.inputs_of(node)
    if len(given) == len(node.next_functions):
        return False
    leaves = ((n, getattr(n, "variable", None)) for n in (node, *given))
    shapes = {walk.output_shape(n) if leaf is None else tuple(shape_of(leaf)) for n, leaf in leaves}
    return type(node).__name__ not in _BY_NUMBERS or None in shapes or len(shapes) > 1


class _Taking:
    """The operations of a graph that take ``new`` leaves (ids), or what is made of these alone, together with something
    else; and whether that was made of ``held`` ones."""

    def __init__(self, order: walk.Graph, new: set[int], held: set[int]) -> None:
        self.above = walk.Above(order)
        own = {n: 1 if id(leaf) in held else 2 for n, leaf in order.leaves.items() if id(leaf) not in new}
        with_data = (f.number for f in order if _takes_data(f.node))
        self._others = walk.gather(order, [*own.items(), *((n, 2) for n in with_data)])

    def trained(self, number: int) -> bool:
        return bool(self._others[number] & 1)

    def of(self, leaves: Iterable[int]) -> set[int]:
        alone = walk.reached(leaves, lambda number: (m for m in self.above[number] if not self._others[m]))
        return {m for n in alone for m in self.above[n] if self._others[m]}
