"""Gradients that no other rank has seen, and nodes that collect one on another CUDA stream than it arrives on.

What ran on the process groups is counted: each backend numbers its collectives, those too that DistributedDataParallel
starts in C++ (``Backend::getSequenceNumberForGroup``). Where the count has gone on between backward and step, the
gradients are compared: an average changes each in its own way, clipping all by one factor, a metric none.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterable
from itertools import islice
from sys import _getframe
from types import FrameType
from typing import Any

from graphdoc.capture.audit.hidden import inside
from graphdoc.capture.audit.watch import OFTEN, EngineCall, Open, Watch
from graphdoc.capture.events.journal import Noted, Seen, leaves_behind
from graphdoc.capture.graph import walk
from graphdoc.capture.graph.roots import roots_of_call
from graphdoc.capture.places import stacks
from graphdoc.capture.places.code_places import outwards
from graphdoc.capture.tensors.access_paths import roots_of
from graphdoc.capture.tensors.facts import grad_fn_of, instances_of, is_hooked, parameters_of
from graphdoc.capture.tensors.living import Ref
from graphdoc.capture.tensors.names import Census
from graphdoc.capture.tensors.number_facts import numbers_of, some_of
from graphdoc.evidence import Sign

MOST_LOOKS = 12
"""Backward calls that are looked at."""
MOST_SEARCHES = 4
MOST_SAMPLED = 20
"""Gradients that are compared, and numbers of each."""
CLOSE = 1e-2
"""Factors of numbers that were scaled by the same one, in 16 bits too."""
_OTHERS = {"FullyShardedDataParallel", "DeepSpeedEngine"}
"""Classes whose owners average gradients in a way of their own."""
_SHARDED = "FSDPModule"
"""The class that ``fully_shard`` gives a module besides its own."""
_COUNTED = {"gloo", "nccl", "xccl"}
"""Backends that number every collective (PyTorch 2.6 to 2.13)."""


class _Local:
    """A looked-at backward call that has started no collective; or, where they are ``unknown`` to the wrapper, none
    for these leaves."""

    def __init__(self, noted: Noted, count: int, leaves: dict[int, Any], unknown: bool) -> None:
        self.noted, self.count, self.leaves, self.unknown = noted, count, frozenset(leaves), unknown
        self.stack: stacks.Stack | None = None
        """Where the first of these leaves was used, for those of a wrapped module."""
        self.wrapper: Any = None
        self.converted = False
        self.through = False
        """Whether it came through the wrapper's own forward, whose hooks then did nothing."""
        self.later = False
        """Whether it is another call for one forward, or under ``no_sync()``: it counts only if it sends something."""
        self.samples: dict[int, list[float]] = {}
        """Some numbers of a few gradients after the call, by id of the leaf."""


class Unreduced(Open):
    """``wrapper-bypassed``: ``stack`` is where a wrapped module was called without its DistributedDataParallel,
    ``other`` the backward call; ``facts["collectives"]``: some ran meanwhile, and averaged no gradient of those steps.

    ``wrapper-outdated``: the same, but the wrapper was called, and these parameters were made after it; with
    ``facts["converted"]`` they have another dtype or device since, with ``facts["through"]`` they are those that it was
    made with and have lost its hooks, and with ``facts["sharded"]`` the module is one of ``fully_shard``, and none of
    its groups has them.

    ``never-wrapped``: ``stack`` is the backward call of a program whose ranks share nothing while they train, though a
    DistributedSampler divides the data among them.
    """

    def set_up(self) -> None:
        self.looks = 0
        """Backward calls that were looked at: none where there is one process."""
        self._searches = 0
        self._wrappers: list[weakref.ref[Any]] = []
        """The DistributedDataParallel modules, or those of FSDP2, which are their own."""
        self._open: tuple[_Local, dict[int, Any]] | None = None
        self._calls: list[_Local] = []
        """Those whose gradients no step has used yet."""
        self._heard = False
        """Whether a backward call since the latest step has started a collective."""
        self._newest = -1
        """The number of the newest node that a wrapped module began with: a forward prepares the hooks for one call."""
        self._before = -1
        """The count at the latest step."""
        self._idle = {0}
        """How far it went on from one step to the next, where no gradient and no parameter was changed by it."""
        self._stepped: dict[int, list[float]] = {}
        """What a few parameters were after that step, by id."""
        self._refs: dict[int, Ref] = {}
        self._bypassed: list[Sign] = []
        self._alone: list[Sign] = []

    @property
    def waits(self) -> bool:
        """Whether the call that runs now is of interest when it ends."""
        return self._open is not None

    def called(self, call: EngineCall) -> None:
        self._open = None
        if self.looks >= MOST_LOOKS or self._bypassed or not self._ranks():
            return
        self.looks += 1
        count = self._count()
        found = self._wrapped(call.leaves) if count >= 0 else None
        if found is None:
            return
        wrapper, mine = found
        # Parameters that changed since the latest step while something was sent may be what is shared.
        before = self._stepped if count != self._before else {}
        now = self._sampled((i, p) for i, p in mine.items() if i in before)
        if any(now[i] != before[i] for i in now):
            self.looks, self._alone = MOST_LOOKS, []
            return
        unknown = {} if wrapper is None else _unknown(wrapper, mine)
        mine = unknown or mine
        local = _Local(call.noted, count, mine, bool(unknown))
        if wrapper is not None:
            local.converted = not unknown and not _is_sharded(wrapper) and _is_converted(wrapper)
            local.wrapper = weakref.ref(wrapper)
            if not unknown and _is_sharded(wrapper):
                return  # it is one of FSDP2's own parameters that are behind this loss
            forward = getattr(type(wrapper).forward, "__code__", None)
            number, local.stack, through = _used_at(call.roots, mine, forward)
            local.through = through and not unknown and not local.converted
            anew, self._newest = number > self._newest, max(number, self._newest)
            if local.through and getattr(wrapper, "_comm_hooks", None):
                return
            if local.through:
                local.later = not (anew and call.noted[1] == "backward" and wrapper.require_backward_grad_sync)
        if wrapper is None or local.stack is not None:
            self._open = local, mine

    def began(self, _call: EngineCall) -> None:
        """Later calls are not looked at; what was sent since the latest step may have been the parameters."""
        if self._alone and self._count() != self._before:
            alive = ((i, p) for i, ref in self._refs.items() if (p := ref()) is not None)
            if any(numbers != self._stepped[i] for i, numbers in self._sampled(alive).items()):
                self.looks, self._alone = MOST_LOOKS, []

    def gave(self, _noted: Noted, _results: Any) -> None:
        assert self._open is not None
        (local, leaves), self._open = self._open, None
        if local.unknown:
            local.count = self._count()
        if self._count() != local.count:
            self._heard = True
        elif not local.later:
            local.samples = self._sampled((i, p.grad) for i, p in leaves.items())
            self._calls.append(local)

    def wants(self, _seen: Seen) -> bool:
        return bool(self._calls or self._alone or self._bypassed or (self._stepped and self.looks < MOST_LOOKS))

    def stepped(self, optimizer: Any, seen: Seen) -> None:
        count = self._count()
        if self._bypassed and count != self._before:
            self._bypassed[0].facts["collectives"] = True
        held = {id(p): p for p in parameters_of(optimizer)}
        mine = [c for c in self._calls if c.leaves & held.keys() and not (c.through and self._heard)]
        self._calls = [c for c in self._calls[-MOST_LOOKS:] if c not in mine]
        if not mine and count - self._before not in self._idle:
            self._alone.clear()  # what was sent may have been the parameters
        if mine:
            self._judge(mine[-1], held, seen, count)
            self._stepped = {}
        # A step in between, by gradients that were averaged, changes parameters as well.
        known = mine[-1].leaves if mine else self._stepped.keys()
        self._stepped |= self._sampled((i, held[i]) for i in known if i in held)
        self._refs = {i: Ref(held[i]) if i in held else self._refs[i] for i in self._stepped}
        self._before, self._heard = count, False

    def _judge(self, local: _Local, held: dict[int, Any], seen: Seen, count: int) -> None:
        bypassed, quiet = local.wrapper is not None, count == local.count
        now = self._sampled((i, held[i].grad) for i in local.samples if i in held) if not quiet else {}
        pairs = [(b, n) for i in now for b, n in zip(local.samples[i], now[i], strict=True)]
        alone = quiet or (bool(now) and _is_scaled(pairs))
        if not alone:
            self._alone.clear()
        elif not bypassed:
            self._idle.add(count - self._before)
        if alone and not self._alone and self._often((seen.id, bypassed), OFTEN):
            self._tell(local, seen, quiet)

    def _sampled(self, tensors: Iterable[tuple[int, Any]]) -> dict[int, list[float]]:
        """Some numbers of the first of these."""
        found = {}
        for ident, tensor in islice(tensors, MOST_SAMPLED):
            numbers = numbers_of(tensor) if tensor is not None else None
            if numbers is not None:
                found[ident] = some_of(numbers, MOST_SAMPLED).tolist()
        return found

    # -- ranks, groups and wrappers --------------------------------------------------------------------------------

    def _ranks(self) -> bool:
        distributed = self._audit.torch.distributed
        return bool(distributed.is_available() and distributed.is_initialized() and distributed.get_world_size() > 1)

    def _count(self) -> int:
        """How many collectives this process has started, on all groups; -1 where a backend does not count."""
        if not self._ranks():
            return -1
        torch = self._audit.torch
        count = 0
        try:
            for group in list(torch.distributed.distributed_c10d._world.pg_map):
                for device in group._device_types:
                    backend = group._get_backend(device)
                    if backend.name() not in _COUNTED:
                        return -1
                    count += backend._get_sequence_number_for_group()
        except (AttributeError, RuntimeError):
            return -1
        return count

    def _wrapped(self, leaves: dict[int, Any]) -> tuple[Any, dict[int, Any]] | None:
        """The wrapper of some of these leaves, with them; no wrapper and all leaves where the program has none at all.
        None where it cannot be told."""
        for _ in range(2):
            whole: tuple[Any, dict[int, Any]] | None = None
            for ref in self._wrappers:
                wrapper = ref()
                every = _module_of(wrapper).parameters() if wrapper else ()
                mine = {i: leaves[i] for p in every if (i := id(p)) in leaves}
                if mine and not _is_sharded(wrapper):
                    return (wrapper, mine) if self._reduces(wrapper) else None
                if mine and (whole is None or len(mine) > len(whole[1])):
                    whole = wrapper, mine  # modules of FSDP2 lie in one another
            if whole is not None:
                return whole
            if self._searches >= MOST_SEARCHES:
                break
            self._searches += 1
            if not self._search():
                return None
        plain = all(type(t).__module__ in ("torch", "torch.nn.parameter") for t in leaves.values())
        return None if self._wrappers or not plain or not leaves else (None, leaves)

    def _search(self) -> bool:
        """Look for the wrappers that are alive; False where another package, or FSDP, takes care of gradients."""
        kind = self._audit.torch.nn.parallel.DistributedDataParallel
        self._wrappers = []
        for obj in gc.get_objects():
            mro = type(obj).__mro__  # never isinstance: that would touch lazy proxies
            wraps = kind in mro and "module" in obj.__dict__.get("_modules", ())
            if wraps or _is_sharded(obj):
                self._wrappers.append(weakref.ref(obj))
            elif mro[0].__name__ in _OTHERS:
                return False
        return True

    @staticmethod
    def _reduces(wrapper: Any) -> bool:
        """Whether the reducer in C++ averages gradients, over more than one rank."""
        others = ("_use_python_reducer", "_delay_all_reduce_all_params")
        return not any(getattr(wrapper, name, False) for name in others) and wrapper.process_group.size() > 1

    # -- telling ---------------------------------------------------------------------------------------------------

    def _tell(self, local: _Local, seen: Seen, quiet: bool) -> None:
        audit = self._audit
        lost = local.unknown or local.converted or local.through
        kind = "wrapper-outdated" if lost else "wrapper-bypassed"
        kind = kind if local.wrapper is not None else "never-wrapped"
        sign = self._sign(kind, local.noted, None, local.leaves, optimizer=seen.id, count=OFTEN)
        if local.stack is None:
            sign.facts = {"ranks": audit.torch.distributed.get_world_size()}
            sampler = audit.torch.utils.data.distributed.DistributedSampler
            if next(instances_of(sampler), None) is not None:
                self._alone.append(sign)
            return
        wrapper = local.wrapper()
        sign.stack, sign.other = self._frames(_around(local.stack.raw, wrapper)), sign.stack
        sign.facts = {"collectives": not quiet or local.count != self._before, "sharded": _is_sharded(wrapper)}
        sign.facts |= {"converted": local.converted, "through": local.through}
        self._bypassed.append(sign)
        audit.tell_early()

    def signs(self) -> list[Sign]:
        return self._bypassed or self._alone


def _is_scaled(pairs: list[tuple[float, float]]) -> bool:
    """Whether numbers are as before, or all smaller by one factor: who clips gradients shares none."""
    factors = [now / before for before, now in pairs if before]
    if not factors or any(now for before, now in pairs if not before):
        return not factors and not any(now for _, now in pairs)
    return min(factors) > 0 and max(factors) <= 1 + CLOSE and max(factors) - min(factors) <= CLOSE * max(factors)


def _is_sharded(module: Any) -> bool:
    """Whether ``fully_shard`` was called with this module."""
    return any(c.__name__ == _SHARDED for c in type(module).__mro__)


def _module_of(wrapper: Any) -> Any:
    """The module that is wrapped."""
    return wrapper if _is_sharded(wrapper) else wrapper.module


def _is_converted(wrapper: Any) -> bool:
    """Whether parameters have another dtype or device than when they were wrapped. Autograd then drops the node that
    adds up their gradient, with the hooks in it (torch/csrc/autograd/variable.cpp, ``set_data``)."""
    held = wrapper._module_parameters
    size, now = wrapper._get_ddp_logging_data().get("total_parameter_size_bytes"), sum(p.nbytes for p in held)
    return any(p.device.type != wrapper.device_type for p in held) or size not in (None, now)


def _unknown(wrapper: Any, leaves: dict[int, Any]) -> dict[int, Any]:
    """Those of these leaves that a wrapper has no hooks for: its parameters are the ones that it was made with. One
    that has hooks of its own may be averaged in them."""
    ignored = getattr(wrapper, "parameters_to_ignore", ())
    if _is_sharded(wrapper):
        kind = type(wrapper)._get_fsdp_state
        states = [kind(m) for m in wrapper.modules() if _is_sharded(m)]
        groups = [g for s in states for g in getattr(s, "_fsdp_param_groups", None) or [s._fsdp_param_group] if g]
        both = [(p.sharded_param, getattr(p, "_unsharded_param", None)) for g in groups for p in g.fsdp_params]
        known = {id(p) for pair in both for p in pair}
    else:
        known = {id(p) for p in getattr(wrapper, "_module_parameters", leaves.values())}
    named = ((name, p) for name, p in _module_of(wrapper).named_parameters() if id(p) not in known)
    left = {id(p) for name, p in named if name not in ignored and not is_hooked(p)}
    return {i: p for i, p in leaves.items() if i in left and not hasattr(p, "device_mesh")}


def _used_at(roots: list[Any], leaves: dict[int, Any], forward: Any) -> tuple[int, stacks.Stack | None, bool]:
    """Where one of these leaves was first used, with the number of the node (-1 and None where it is not known); and
    whether any was used inside of this forward."""
    first, at, through = -1, None, False
    for number, (node, following) in enumerate(walk.nodes_behind(roots)):
        if number >= walk.DEEP - 1:
            return -1, None, through
        if not any(type(n).__name__ == "AccumulateGrad" and id(n.variable) in leaves for n, _ in following):
            continue
        stack = stacks.stack_of(node)
        if stack is None:
            return -1, None, through
        through = through or forward in stack.raw[::2]
        if at is None or node._sequence_nr() < first:
            first, at = node._sequence_nr(), stack
    return first, at, through


def _around(raw: stacks.RawStack, wrapper: Any) -> stacks.RawStack:
    """The part of a stack outside of the module that this wrapper wraps: who called it, or one of its methods."""
    classes = {c for m in _module_of(wrapper).modules() for c in type(m).__mro__} if wrapper is not None else set()
    functions = [f for c in classes if c.__module__ != "torch.nn.modules.module" for f in vars(c).values()]
    codes = {code for f in functions if (code := getattr(f, "__code__", None)) is not None}
    inside = [i for i in range(0, len(raw), 2) if raw[i] in codes]
    return raw[inside[-1] + 2 :] if inside else raw


# Nodes that collect a gradient on another CUDA stream than the one it arrives on: who has kept them from before.

MOST_TOLD = 4


class Streams(Watch):
    """``kept-collector``: PyTorch warned, in the backward call at ``other``, that a parameter's AccumulateGrad node is
    of another stream. ``stack`` is where a value was made that has kept it since: its graph is older than this one
    and leads to the same parameters. ``facts["name"]`` is what the program calls it or, with ``facts["inside"]``, its
    container. With ``facts["wrapped"]`` it is DistributedDataParallel that keeps the nodes, and there is no ``stack``.
    """

    def mismatched(self) -> None:
        """PyTorch shows its warning; it does so once."""
        audit = self._audit
        engine = audit.witness.calls
        at = next((f for f in outwards(_getframe(1)) if f.f_code is engine.code), None)
        call = at.f_locals.get(engine.token) if at is not None else None
        if self._found or not call:
            return
        with audit.unseen():
            self._look(call[0], call[1], audit.running())
        if self._found:
            audit.tell_early()

    def _look(self, noted: Any, outputs: Any, running: list[FrameType]) -> None:
        audit = self._audit
        roots = [r for r in roots_of_call(outputs) if r is not None]
        leaves = leaves_behind(roots)
        if not leaves:
            return
        began = min(node._sequence_nr() for node, _ in walk.nodes_behind(roots))
        census = Census(roots_of(running), audit.torch)
        for ident, tensor in census.tensors.items():
            node = grad_fn_of(tensor)
            if node is None or node._sequence_nr() >= began or len(self._found) == MOST_TOLD:
                continue
            shared = (leaves_behind([node]) or {}).keys() & leaves.keys()
            holders = census.holders(ident, True, audit.witness.cwd) if shared else []
            kept = stacks.stack_of(node)
            if holders and kept is not None:
                name, _, rest = holders[0].told.partition("[")
                sign = self._sign("kept-collector", kept, noted, shared)
                sign.facts = {"name": name, "inside": bool(rest)}
                self._found += [sign] if sign not in self._found else []
        kind = audit.torch.nn.parallel.DistributedDataParallel  # which has hooks in all that it wraps
        wrapped = {id(p) for wrapper in instances_of(kind) for p in inside(wrapper)} & leaves.keys()
        if wrapped:
            self._found.append(self._sign("kept-collector", None, noted, wrapped, facts={"wrapped": True}))
