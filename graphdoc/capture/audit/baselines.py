"""Factors of a log-probability that carry the graph of a value which the same loss fits.

The gradient of a policy is a log-probability times a constant: return less expected return. Where the expectation is
still differentiated, the policy's part of the loss moves the value as well, and another part of it fits that value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from sys import _getframe
from typing import TYPE_CHECKING, Any

from graphdoc.capture import node_stacks, stacks, walk
from graphdoc.capture.audit.watch import Watch
from graphdoc.capture.frames import site_of, users_line
from graphdoc.capture.journal import leaves_behind
from graphdoc.capture.quiet import Unseen
from graphdoc.capture.roots import tensor_roots
from graphdoc.evidence import Sign

if TYPE_CHECKING:
    from graphdoc.capture.audit import Audit
    from graphdoc.capture.journal import Noted


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


class Baselines(Watch):
    """``baseline-trained``: ``stack`` is a product with a log-probability, ``other`` what fits the value that the other
    factor (``facts["products"]``: each with its ``operand``, 0 or 1, and its frame) was computed from; ``parameters``
    lie behind that value, those that the log-probability depends on too left out, and ``facts["behind"]`` are all."""

    def __init__(self, audit: Audit) -> None:
        super().__init__(audit)
        self._counts: dict[Any, int] = {}

    def called(self, noted: Noted, outputs: Any) -> None:
        """A backward call that is looked at is about to run."""
        if self._found or self._has_looked(MOST_LOOKS):
            return
        self._looks += 1
        audit = self._audit
        with Unseen(audit.torch, audit.witness.anomaly, _getframe(1)):
            roots = tensor_roots(outputs)
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
            stack = node_stacks.stack_of(node)
            if stack is not None:
                places.setdefault(site_of(stack), (stack, operand))
                values |= mine
                scored.append(node.next_functions[1 - operand][0])
        if not places:
            return
        first = next(iter(places))
        self._counts[first] = self._counts.get(first, 0) + 1
        if self._counts[first] < OFTEN:
            return
        audit = self._audit
        audit.snapshot()
        fit = node_stacks.stack_of(fitted[next(iter(values))])
        other = self._frames(fit) if fit is not None else []
        sign = Sign("baseline-trained", self._frames(places[first][0]), other, event=noted[0], count=OFTEN)
        every = set(leaves_behind(list(values)) or ())
        behind = every - set(leaves_behind(scored) or ()) or every
        sign.parameters = audit.named(behind)
        call = self._call(noted)
        sign.facts = {
            "products": [
                {"operand": operand, "frame": users_line(self._frames(stack))} for stack, operand in places.values()
            ],
            "backward": users_line(call),
            "behind": audit.named(every),
        }
        self._report(sign)


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
    stack = node_stacks.stack_of(node)
    if stack is None:
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
