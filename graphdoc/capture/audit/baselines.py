"""Factors of a log-probability that carry the graph of a value which the same loss fits.

The gradient of a policy is a log-probability times a constant: return less expected return. Where the expectation is
still differentiated, the policy's part of the loss moves the value as well, and another part of it fits that value.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from inspect import GEN_CREATED, getgeneratorstate
from sys import _getframe
from types import GeneratorType
from typing import TYPE_CHECKING, Any

from graphdoc.capture import event_stacks, node_stacks, stacks, walk
from graphdoc.capture.facts import grad_fn_of
from graphdoc.capture.frames import frames_of, site_of
from graphdoc.capture.inserted_calls import CannotInsert, insert_calls
from graphdoc.capture.journal import leaves_behind
from graphdoc.capture.number_facts import has_memory
from graphdoc.capture.quiet import Unseen
from graphdoc.evidence import Sign

if TYPE_CHECKING:
    from graphdoc.capture.audit import Audit
    from graphdoc.capture.journal import Entry, Noted


MOST_LOOKS = 8
OFTEN = 2
"""Calls in which the same is seen before it is told."""
MOST_PRODUCTS = 200
"""Products of one loss that are looked at: a rollout adds up one for each step."""
MOST_INSIDE = 2000
"""Nodes between a product and what its factor was computed from."""

_ALONE = {"ExpandBackward0", "PermuteBackward0", "TransposeBackward0", "TBackward0", "SliceBackward0", "CopySlices"}
_ALONE |= {"SelectBackward0", "UnbindBackward0", "IndexBackward0", "CloneBackward0", "AliasBackward0", "FlipBackward0"}
_ALONE |= {"SqueezeBackward0", "SqueezeBackward1", "SqueezeBackward2", "UnsqueezeBackward0", "ViewBackward0"}
_ALONE |= {"UnsafeViewBackward0", "ReshapeAliasBackward0", "ToCopyBackward0", "NegBackward0", "CatBackward0"}
_ALONE |= {"SumBackward0", "SumBackward1", "MeanBackward0", "MeanBackward1", "StackBackward0"}
_DIFFERENCES = {"SubBackward0", "RsubBackward0"}
_LINEAR = _ALONE | _DIFFERENCES | {"AddBackward0"}
_SCALES = {"MulBackward0", "DivBackward0"}
_NORMAL = {"StdBackward0", "VarBackward0", "SqrtBackward0"}
"""What a factor is divided by where it is brought to a common scale."""
_RATIO = {"ExpBackward0", "ClampBackward0", "ClampBackward1", "ClampMinBackward0", "ClampMaxBackward0"}
_CHOICES = {"GatherBackward0", "IndexBackward0", "NllLossBackward0"}
"""What takes the entry of the action that was chosen out of the logarithms of all."""
_LOSSES = {"MseLossBackward0", "SmoothL1LossBackward0", "HuberLossBackward0"}


class Baselines:
    """``baseline-trained``: ``stack`` is a product with a log-probability, ``other`` what fits the value that the other
    factor (``facts["products"]``: each with its ``operand``, 0 or 1, and its frame) was computed from; ``parameters``
    lie behind that value, those that the log-probability depends on too left out."""

    def __init__(self, audit: Audit) -> None:
        self._audit = audit
        self._looks = 0
        self._counts: dict[Any, int] = {}
        self._found: list[Sign] = []

    def called(self, noted: Noted, outputs: Any) -> None:
        """A backward call that is looked at is about to run."""
        if self._found or self._looks >= MOST_LOOKS:
            return
        self._looks += 1
        audit = self._audit
        with Unseen(audit.torch, audit.witness.anomaly, _getframe(1)):
            roots = [grad_fn_of(t) for t in outputs if hasattr(t, "grad_fn")]
            fits, products = _of_interest(roots)
            if not fits or not products:
                return
            fitted: dict[Any, Any] = {}
            for node in fits:
                inside, differs = _values(_edges(node), _LINEAR | _NORMAL)
                if differs or type(node).__name__ in _LOSSES:  # else it is a penalty on the value's size
                    fitted.update((v, node) for v in inside if v not in fitted)
            known = [found for p in products[:MOST_PRODUCTS] if (found := _baseline(p, fitted)) is not None]
        if known:
            self._note(noted, known, fitted)

    def _note(self, noted: Noted, known: list[tuple[Any, int, set[Any]]], fitted: dict[Any, Any]) -> None:
        places: dict[Any, tuple[stacks.Stack, int]] = {}
        values: set[Any] = set()
        scored: list[Any] = []
        for node, operand, mine in known:
            stack = node_stacks.kept_in(node)
            if isinstance(stack, stacks.Stack):
                places.setdefault(site_of(stack), (stack, operand))
                values |= mine
                scored.append(node.next_functions[1 - operand][0])
        if not places:
            return
        first = next(iter(places))
        self._counts[first] = self._counts.get(first, 0) + 1
        if self._counts[first] < OFTEN:
            return
        audit, cwd = self._audit, self._audit.witness.cwd
        audit.snapshot()
        fit = node_stacks.kept_in(fitted[next(iter(values))])
        other = frames_of(fit, cwd) if isinstance(fit, stacks.Stack) else []
        sign = Sign("baseline-trained", frames_of(places[first][0], cwd), other, event=noted[0], count=OFTEN)
        every = set(leaves_behind(list(values)) or ())
        behind = every - set(leaves_behind(scored) or ()) or every
        sign.parameters = sorted(audit.names[i] for i in behind if i in audit.names)
        call = frames_of(event_stacks.stack_of_seen(noted[3]), cwd)
        sign.facts = {
            "products": [
                {"operand": operand, "frame": [vars(f) for f in frames_of(stack, cwd) if f.user][-1:]}
                for stack, operand in places.values()
            ],
            "backward": [vars(f) for f in call if f.user][-1:],
        }
        self._found.append(sign)
        audit.tell_early()

    def signs(self) -> list[Sign]:
        """What was found; nothing takes it back."""
        return self._found


def _edges(node: Any) -> list[Any]:
    return [n for n, _ in node.next_functions if n is not None]


def _of_interest(roots: list[Any]) -> tuple[list[Any], list[Any]]:
    """The nodes that fit a value, and the products of two values with a graph."""
    fits: list[Any] = []
    products: list[Any] = []
    for count, (node, following) in enumerate(walk.nodes_behind(roots)):
        if count >= walk.DEEP - 1:
            return [], []
        name = type(node).__name__
        if name in _LOSSES or (name == "PowBackward0" and _is_square(node)):
            fits.append(node)
        elif name == "MulBackward0" and len(following) == 2 and None not in (following[0][0], following[1][0]):
            (fits if following[0] == following[1] else products).append(node)
    return fits, products


def _is_square(node: Any) -> bool:
    try:
        return bool(node._saved_exponent == 2)
    except (AttributeError, RuntimeError):
        return False


def _baseline(product: Any, fitted: dict[Any, Any]) -> tuple[Any, int, set[Any]] | None:
    """The product, which of its factors is such a difference, and the values that this was computed from."""
    sides = [n for n, _ in product.next_functions]
    for operand in (0, 1):
        if not _is_log_probability(sides[1 - operand]):
            continue
        values, differs = _values([sides[operand]], _LINEAR | _NORMAL)
        if values and differs and all(v in fitted for v in values):
            return product, operand, values
    return None


def _is_log_probability(node: Any) -> bool:
    """Whether a value is log-probabilities, or their ratios, and nothing else that has a graph."""
    ends = _ends([node], _LINEAR | _RATIO, _is_score)
    return bool(ends) and all(_is_score(end) for end in ends)


def _is_score(node: Any) -> bool:
    """Whether a node gives the log-probability of what was drawn."""
    return _is_from_distribution(node) or _is_chosen(node)


def _is_chosen(node: Any) -> bool:
    """Whether a node takes one class's entry out of ``log_softmax(x)``, or of ``softmax(x).log()``."""
    if type(node).__name__ not in _CHOICES:
        return False
    ends = _ends(_edges(node), _ALONE - {"IndexBackward0"})
    return bool(ends) and all(_is_log_of_all(end) for end in ends)


def _is_log_of_all(node: Any) -> bool:
    name = type(node).__name__
    inner = {type(n).__name__ for n in _edges(node)}
    return name == "LogSoftmaxBackward0" or (name == "LogBackward0" and inner == {"SoftmaxBackward0"})


def _is_from_distribution(node: Any) -> bool:
    """Whether a method ``log_prob`` of PyTorch's distributions has made this node."""
    stack = node_stacks.kept_in(node)
    if not isinstance(stack, stacks.Stack):
        return False
    codes = [code for code in stack.raw[::2] if hasattr(code, "co_name")]
    return any(c.co_name == "log_prob" and "distributions" in c.co_filename and _is_torchs(c) for c in codes[:6])


def _is_torchs(code: Any) -> bool:
    return "torch" in code.co_filename.replace("\\", "/").split("/")


def _values(nodes: Iterable[Any], through: set[str]) -> tuple[set[Any], bool]:
    """What these are computed from by such operations, and whether a difference is among them."""
    passed: list[Any] = []
    ends = set(_ends(nodes, through, passed=passed))
    return ends, any(type(n).__name__ in _DIFFERENCES for n in passed)


def _ends(
    nodes: Iterable[Any], through: set[str], at: Callable[[Any], bool] | None = None, passed: list[Any] | None = None
) -> list[Any]:
    """The nodes at which the way through such operations, and through scaling by constants, ends; none if it is long.

    Args:
        at: ends the way too.
        passed: takes the nodes on the way.
    """
    todo = list(nodes)
    seen = set(todo)
    ends = []
    for node in todo:
        if len(todo) > MOST_INSIDE:
            return []
        name = type(node).__name__
        following = _edges(node)
        scaled = name in _SCALES and (len(following) == 1 or through >= _NORMAL)
        if (at is not None and at(node)) or not (name in through or scaled):
            ends.append(node)
            continue
        if passed is not None:
            passed.append(node)
        fresh = [n for n in following if n not in seen]
        seen.update(fresh)
        todo += fresh
    return ends


# Calls that bound the gradients, and whether any step uses what they bound.

ENOUGH = 4
"""Calls from one place in which the same was seen."""
LAST = 6
"""Calls that are looked at."""
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


class Clips:
    """``clip-unused``: ``stack`` is the call that bounds, ``other`` the call that it has to change places with or stand
    in front of; ``facts["how"]`` is ``after-step``, ``before-backward`` or ``before-unscale``; ``facts["bounds"]``
    whether any of the calls had something to bound. Or ``nothing-given``:
    the call has no parameters to bound, while ``other`` steps; the source has to tell why."""

    def __init__(self, audit: Audit) -> None:
        self._audit = audit
        self._clips: list[_Clip] = []
        self._over = False
        self._found: list[Sign] = []

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
        self._over = len(self._clips) >= LAST

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

    def _judge(self) -> None:
        places: dict[Any, list[_Clip]] = {}
        for clip in self._clips:
            places.setdefault(tuple(map(id, clip.raw.raw[::2])) + tuple(clip.raw.raw[1::2]), []).append(clip)
        entries = self._audit.journal.entries()
        for clips in places.values():
            if len(clips) < ENOUGH:
                continue
            seen = [self._how(clip, entries) for clip in clips]
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
            return "after-step", last
        if not clip.found and following.kind == "backward" and following.reaches is not None:
            then = next((e for e in after if e.kind in ("step", "zero_grad") and e.optimizer in owners), None)
            return ("before-backward", following) if then is not None and then.kind == "step" else ("", None)
        if last.kind == "backward" and following.kind == "step" and self._is_scaled(last, clip):
            return "before-unscale", following
        return "", None

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
        cwd = audit.witness.cwd
        sign = Sign("clip-unused", frames_of(clip.raw, cwd), frames_of(about.raw, cwd) if about is not None else [])
        sign.parameters = sorted(audit.names[i] for i in clip.ids if i in audit.names)
        owners = [s for s in audit.journal.optimizers.values() if clip.ids & set(s.parameters)]
        sign.optimizer = owners[0].id if owners else about.optimizer if about is not None else -1
        sign.event, sign.count, sign.facts = clip.index, ENOUGH, {"how": how, "bounds": bounds}
        self._found.append(sign)
