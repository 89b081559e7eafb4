"""What should be a constant of a loss, and carries a graph: a baseline, an old copy, what was detached for nothing.

The gradient of a policy is a log-probability times a constant: return less expected return. Where the expectation is
still differentiated, the policy's part of the loss moves the value as well, and another part of it fits that value.
"""

from __future__ import annotations

import dis
from collections.abc import Callable, Iterable, Iterator
from math import prod
from types import CodeType
from typing import Any, NamedTuple

from graphdoc.capture.audit.watch import OFTEN, EngineCall, Watch
from graphdoc.capture.events.journal import Noted, leaves_behind
from graphdoc.capture.graph import walk
from graphdoc.capture.graph.summands import SCALING
from graphdoc.capture.graph.walk import VIEWS
from graphdoc.capture.places import stacks
from graphdoc.capture.places.code_places import is_user_file, position
from graphdoc.capture.places.frames import site_of
from graphdoc.capture.tensors import saved
from graphdoc.evidence import Sign

MOST_BASELINES = 8
"""Backward calls that are looked at for one."""
MOST_PRODUCTS = 200
"""Products of one loss that are looked at: a rollout adds up one for each step."""
MOST_WEIGHTS = 8
"""Of these, those whose factors are looked through to the parameters behind them."""
MOST_INSIDE = 2000
"""Nodes between a product and what its factor was computed from."""

_ALONE = walk.VIEWS | {"CopySlices", "UnbindBackward0", "IndexBackward0", "CloneBackward0", "FlipBackward0"}
_ALONE |= {"SqueezeBackward2", "ToCopyBackward0", "NegBackward0", "CatBackward0", "StackBackward0", "RsubBackward1"}
_ALONE |= {"SumBackward0", "SumBackward1", "MeanBackward0", "MeanBackward1", "SplitBackward0", "IndexSelectBackward0"}
_DIFFERENCES = {"SubBackward0", "RsubBackward0"}
LINEAR = _ALONE | _DIFFERENCES | {"AddBackward0"}
_NORMAL = {"StdBackward0", "VarBackward0", "SqrtBackward0"}
"""What a factor is divided by where it is brought to a common scale."""
_RATIO = {"ExpBackward0", "ClampBackward0", "ClampBackward1", "ClampMinBackward0", "ClampMaxBackward0"}
_CHOICES = {"GatherBackward0", "IndexBackward0", "NllLossBackward0", "MaskedSelectBackward0", "TakeBackward0"}
"""What takes the entry of the action that was chosen out of the logarithms of all."""
_TAKES = {"SelectBackward0", "UnbindBackward0", "SliceBackward0", "SplitBackward0", "IndexSelectBackward0"}
"""What may take it: these take something out of one dimension, which may be that of the batch as well."""
_LOSSES = {"MseLossBackward0", "SmoothL1LossBackward0", "HuberLossBackward0"}


class Baselines(Watch):
    """``baseline-trained``: ``stack`` is a product with a log-probability, ``other`` what fits the value that the other
    factor (``facts["products"]``: each with its ``operand``, 0 or 1, and its frame) was computed from; ``parameters``
    lie behind that value, those that the log-probability depends on too left out, and ``facts["behind"]`` are all.
    ``facts["own"]``: a loss of another optimizer fits the value, and ``parameters`` are those of the log-probability
    on which the factor depends as well."""

    def set_up(self) -> None:
        self._fitted: dict[int, tuple[stacks.Stack, frozenset[int]]] = self._journal.living.forgetting({})
        """Leaves behind the values that losses fit, by id, with where the first of these losses is computed, and all
        leaves behind its value."""

    def called(self, call: EngineCall) -> None:
        if self._found or not self._may_look(MOST_BASELINES):
            return
        fits, products = _of_interest(call.roots)
        fitted: dict[Any, Any] = {}
        for node in fits:
            inside, differs = _values(walk.inputs_of(node), LINEAR | _NORMAL)
            if differs or type(node).__name__ in _LOSSES:  # else it is a penalty on the value's size
                fitted.update((v, node) for v in inside if v not in fitted)
        known = [found for p in products[:MOST_PRODUCTS] if (found := _baseline(p, fitted)) is not None]
        weighed = (w for p in products[:MOST_WEIGHTS] if (w := self._weight(p)) is not None)
        own = next(weighed, None) if self._fitted and not known else None
        self._note_fits(fitted)
        if known:
            self._note(call.noted, known, fitted)
        elif own is not None:
            self._note_own(call.noted, *own)

    def _note_fits(self, fitted: dict[Any, Any]) -> None:
        """Note what lies behind these values, in one walk: a rollout may fit a thousand of them."""
        order = walk.walk(fitted, walk.DEEP - 1)
        behind, _, leaves = walk.below(order, bytearray(len(order)))
        numbers, noted = order.numbers_of(fitted), set[int]()
        for value, node in fitted.items():
            bits, stack = behind[numbers[value]], stacks.stack_of(node)
            if stack is not None and bits not in noted:
                noted.add(bits)
                whole = frozenset(id(leaf) for position, leaf in leaves.items() if bits >> position & 1)
                self._fitted.update((leaf, (stack, whole)) for leaf in whole - self._fitted.keys())

    def _weight(self, product: Any) -> tuple[Any, int, set[int], set[int]] | None:
        """The product, which of its factors depends both on what its log-probability depends on and on a value that
        another optimizer's loss fits, and the ids of the parameters of both."""
        # A probability weighs what is expected of all actions, and that is meant to depend on the policy.
        for operand, *sides in _scored(product, _is_from_distribution, LINEAR):
            factor, scored = (set(leaves_behind([side]) or ()) for side in sides)
            held = (set(o.parameters) for o in self._journal.optimizers.values())
            mine = set[int]().union(*(h for h in held if h & scored))
            others = {i for i in factor & (self._fitted.keys() - mine) if self._fitted[i][1] <= factor}
            if factor & scored & mine and others and others == factor - scored:
                return product, operand, factor & scored, others
        return None

    def _note_own(self, noted: Noted, node: Any, operand: int, mine: set[int], others: set[int]) -> None:
        stack = stacks.stack_of(node)
        if stack is not None and self._often(site_of(stack), OFTEN):
            self._tell(noted, [(stack, operand)], self._fitted[min(others)][0], mine, "own", others)

    def _note(self, noted: Noted, known: list[tuple[Any, int, set[Any]]], fitted: dict[Any, Any]) -> None:
        places: dict[Any, tuple[stacks.Stack, int]] = {}
        values: set[Any] = set()
        scored: list[Any] = []
        for node, operand, mine in known:
            stack = stacks.stack_of(node)
            if stack is not None:
                places.setdefault(site_of(stack), (stack, operand))
                values |= mine
                scored.append(node.next_functions[1 - operand][0])
        if not places or not self._often(next(iter(places)), OFTEN):
            return
        fit = stacks.stack_of(fitted[next(iter(values))])
        every = set(leaves_behind(list(values)) or ())
        behind = every - set(leaves_behind(scored) or ()) or every
        self._tell(noted, list(places.values()), fit, behind, "behind", every)

    def _tell(
        self, noted: Noted, products: list[tuple[Any, int]], fit: Any, mine: set[int], further: str, others: set[int]
    ) -> None:
        sign = self._sign("baseline-trained", products[0][0], fit, mine, event=noted[0], count=OFTEN)
        told = [{"operand": operand, "frame": self._line(raw)} for raw, operand in products]
        sign.facts = {further: self._audit.named(others), "products": told, "backward": self._line(noted)}
        self._report(sign)


def _of_interest(roots: list[Any]) -> tuple[list[Any], list[Any]]:
    """The nodes that fit a value, and the products of two values with a graph."""
    fits: list[Any] = []
    products: list[Any] = []
    for count, (node, following) in enumerate(walk.nodes_behind(roots)):
        if count >= walk.DEEP - 1:
            return [], []
        name = type(node).__name__
        if name in _LOSSES or (name == "PowBackward0" and getattr(node, "_saved_exponent", None) == 2):
            fits.append(node)
        elif name == "MulBackward0" and len(following) == 2 and None not in (following[0][0], following[1][0]):
            (fits if following[0] == following[1] else products).append(node)
    return fits, products


def _baseline(product: Any, fitted: dict[Any, Any]) -> tuple[Any, int, set[Any]] | None:
    """The product, which of its factors is such a difference, and the values that this was computed from."""
    for operand, factor, _ in _scored(product):
        values, differs = _values([factor], LINEAR | _NORMAL)
        if values and differs and all(v in fitted for v in values):
            return product, operand, values
    return None


def _is_score(node: Any) -> bool:
    """Whether a node gives the log-probability of what was drawn."""
    return _is_from_distribution(node) or _is_chosen(node)


def _scored(
    product: Any, is_one: Callable[[Any], bool] = _is_score, through: set[str] = LINEAR | _RATIO
) -> Iterator[tuple[int, Any, Any]]:
    """Which factor of a product is weighed by log-probabilities, or their ratios, and nothing else that has a graph;
    that factor, and these."""
    sides = [n for n, _ in product.next_functions]
    for operand, score in enumerate(reversed(sides)):
        ends = ends_of([score], through, is_one)
        if ends and all(is_one(end) for end in ends):
            yield operand, sides[operand], score


def _is_chosen(node: Any) -> bool:
    """Whether a node gives the logarithm of one class's entry in a softmax, taken out before the logarithm or after."""
    if type(node).__name__ != "LogBackward0":
        return _is_entry(node, _is_log_of_all)
    probabilities = ends_of(walk.inputs_of(node), _ALONE | _RATIO | {"AddBackward0"}, _is_entry)
    return bool(probabilities) and all(_is_entry(n) for n in probabilities)


def _is_softmax(node: Any) -> bool:
    return type(node).__name__ == "SoftmaxBackward0"


def _is_log_of_all(node: Any) -> bool:
    name = type(node).__name__
    return name == "LogSoftmaxBackward0" or (name == "LogBackward0" and all(map(_is_softmax, walk.inputs_of(node))))


def _is_entry(node: Any, is_all: Callable[[Any], bool] = _is_softmax) -> bool:
    """Whether a node takes one class's entry out of what holds those of all."""
    name, passed = type(node).__name__, list[Any]()
    if name not in _CHOICES | _TAKES and not (name == "MulBackward0" and len(walk.inputs_of(node)) == 1):
        return False
    ends = ends_of(walk.inputs_of(node), _ALONE - {"IndexBackward0"}, is_all, passed)
    if not ends or not all(is_all(end) for end in ends):
        return False
    if name in _CHOICES:
        return True
    over = [end if hasattr(end, "_saved_dim") else walk.inputs_of(end)[0] for end in ends]
    dims = {_from_the_end(n._saved_dim, n) for n in over}
    return len(dims) == 1 and _takes_one(node, dims.pop(), passed)


def _takes_one(node: Any, dim: int, passed: list[Any]) -> bool:
    """Whether a node leaves one entry of this dimension, counted from the end, which these on the way have kept: one
    of each row, or of the only row."""
    for n in passed:
        if len({(walk.output_shape(m) or ())[dim:] for m in (n, *walk.inputs_of(n))}) != 1:
            return False
    if type(node).__name__ == "MulBackward0":
        factors = (f for name in ("self", "other") if (f := saved.numbers(node, name)) is not None)
        return any(f.dim() >= -dim and f.shape[dim] > 1 and bool(((f != 0).sum(dim) <= 1).all()) for f in factors)
    (given,) = walk.inputs_of(node)  # of many rows it takes the same class of each, which nobody has drawn
    return _from_the_end(node._saved_dim, given) == dim and prod(walk.output_shape(node) or ()) == 1


def _from_the_end(dim: int, node: Any) -> int:
    """A dimension of what a node gave, counted from the end: -1 is the last one."""
    dim = saved.signed(dim)
    return dim if dim < 0 else dim - len(walk.output_shape(node) or ())


def _is_from_distribution(node: Any) -> bool:
    """Whether a method ``log_prob`` of PyTorch's distributions has made this node."""
    stack = stacks.stack_of(node)
    codes = [code for code in stack.raw[::2] if hasattr(code, "co_name")] if stack is not None else []
    files = (c.co_filename.replace("\\", "/").split("/") for c in codes[:6] if c.co_name == "log_prob")
    return any("torch" in parts and "distributions" in parts for parts in files)


def _values(nodes: Iterable[Any], through: set[str]) -> tuple[set[Any], bool]:
    """What these are computed from by such operations, and whether a difference is among them."""
    passed: list[Any] = []
    ends = set(ends_of(nodes, through, passed=passed))
    return ends, any(type(n).__name__ in _DIFFERENCES for n in passed)


def ends_of(
    nodes: Iterable[Any], through: set[str], at: Callable[[Any], bool] | None = None, passed: list[Any] | None = None
) -> list[Any]:
    """The nodes at which the way through such operations, and through scaling by constants, ends; none if it is long.

    Args:
        at: ends the way too.
        passed: takes the nodes on the way.
    """
    ends: list[Any] = []

    def further(node: Any) -> list[Any]:
        name, following = type(node).__name__, walk.inputs_of(node)
        scaled = name in SCALING and (len(following) == 1 or through >= _NORMAL)
        on = (at is None or not at(node)) and (name in through or scaled)
        if not on or passed is not None:
            (passed if on and passed is not None else ends).append(node)
        return following if on else []

    every = list(walk.reached(nodes, further))
    return ends if len(every) <= MOST_INSIDE else []


# Copies of parameters that were kept with their graph, and from which the parameters' distance is measured later.
# Both sides of such a difference lead to the same parameter, with derivatives that cancel. Told from the graph alone:
# by nothing but copies and views, one side made before a step of the parameter's optimizer and the other one behind
# it.

MOST_COPIES = 30
"""Backward calls that are looked at for one."""
DEEPEST = 8
"""Copies and views inside each other that are worked out."""
WIDEST = 4000
"""Values in one concatenation."""

COPIES = {"CloneBackward0", "ToCopyBackward0", "CatBackward0", "StackBackward0"}
_SAME = {"CloneBackward0", "ToCopyBackward0", "AliasBackward0"}
"""Their result has the elements of their operand, each at its place."""
_FACTORS = {"SubBackward0": 1, "AddBackward0": -1}
"""A difference where the second operand has this factor."""
_DISTANCES = {"MseLossBackward0", "SmoothL1LossBackward0", "HuberLossBackward0", "DistBackward0"}

_BENT = {"PowBackward0", "AbsBackward0", "NormBackward0", "NormBackward1", "LinalgVectorNormBackward0"}
"""What makes a distance of a difference; the sum of differences is a zero that carries a graph, perhaps on purpose."""


class References(Watch):
    """``own-copy``: ``stack`` is where such a copy was made, ``other`` the difference, ``parameters`` what was copied,
    ``facts["backward"]`` the backward call. ``own-self``: ``stack`` is a distance of parameters from themselves, seen
    ``count`` times, and nothing else was ever compared there."""

    def set_up(self) -> None:
        self._others: set[Any] = set()
        """Places at which two different values were compared."""
        self._own: dict[Any, Sign] = {}
        """By the place of a distance of parameters from themselves."""

    def called(self, call: EngineCall) -> None:
        if not self._own and (self._found or not self._may_look(MOST_COPIES, False)):
            return  # where copies are made in a later task, the distance is none from itself any more
        every = self._journal.optimizers.values()
        latest = sorted((seen.sequence, seen.parameters) for seen in every if seen.steps)
        stepped = {i: at for at, mine in latest for i in mine if i in call.leaves}
        if not stepped:
            return
        self._looks += 1
        last = max(stepped.values())
        pairs = [(f.node, pair) for f in call.order if (pair := _operands(f.node)) is not None]
        self._note_own(call, pairs, stepped)
        if not self._found and any(f.sequence < last and f.op in COPIES for f in call.order):
            self._note(call.noted, _differences(pairs, stepped))

    def _note_own(self, call: EngineCall, pairs: list[Any], stepped: dict[int, int]) -> None:
        """Distances of parameters from themselves. A list of the parameters where their copies were meant makes one;
        so does a comparison of each pair of some networks, that of a network and itself too, beside others."""
        own: dict[Any, tuple[stacks.Stack, set[int]]] = {}
        squared = (f for f in call.order if f.op == "MulBackward0" and len({*f.node.next_functions}) == 1)
        bent = {n for f in (*squared, *(f for f in call.order if f.op in _BENT)) for n, _ in f.node.next_functions}
        for node, pair in pairs:
            measures = node in bent or type(node).__name__ in _DISTANCES
            stack = stacks.stack_of(node) if measures else None
            if stack is None:
                continue
            at = site_of(stack)
            sides = [_Value(*edge) for edge in pair]
            same = sides[0].content is not None and sides[0].content == sides[1].content
            if same and not any(s.copies for s in sides) and all(i in stepped for i in sides[0].leaves):
                own.setdefault(at, (stack, set()))[1].update(sides[0].leaves)
            else:
                self._others.add(at)
        for at, (stack, mine) in own.items():
            if at in self._others or not self._often(("own", at), OFTEN):
                continue
            if at in self._own:
                self._own[at].count += 1
                continue
            facts = {"backward": self._line(call.noted)}
            self._own[at] = self._sign("own-self", stack, None, mine, event=call.noted[0], count=OFTEN, facts=facts)
            self._audit.tell_early()

    def signs(self) -> list[Sign]:
        return self._found + [sign for at, sign in self._own.items() if at not in self._others]

    def _note(self, noted: Noted, found: Iterable[tuple[Any, Any, frozenset[int]]]) -> None:
        """What was found, by the place of the copy that comes first: it is told when it is there again."""
        kept = [(stacks.stack_of(copy), stacks.stack_of(node), leaves) for copy, node, leaves in found]
        known = [(c, n, leaves) for c, n, leaves in kept if c is not None and n is not None]
        if not known:
            return
        copy, node, _ = known[0]
        at = site_of(copy)
        if not self._often(at, OFTEN):
            return
        mine = {i for c, _, leaves in known if site_of(c) == at for i in leaves}
        facts = {"backward": self._line(noted)}
        self._report(self._sign("own-copy", copy, node, mine, event=noted[0], count=OFTEN, facts=facts))


def _differences(pairs: list[Any], stepped: dict[int, int]) -> Iterator[tuple[Any, Any, frozenset[int]]]:
    """Each difference between parameters and an older copy of them: the copy's node, its own, ids of the parameters."""
    for node, pair in pairs:
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
            yield old[0].copies[0], node, leaves


def _operands(node: Any) -> Any:
    """The two edges of a difference or a distance; None for any other node."""
    name = type(node).__name__
    edges = node.next_functions
    if len(edges) != 2 or edges[0][0] is None or edges[1][0] is None:
        return None
    if name in _DISTANCES:
        return edges
    factor = _FACTORS.get(name)
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
    shapes = [tuple(m.shape) for m in getattr(node, "_input_metadata", ())]
    names = (a for a in dir(cls) if a.startswith("_saved_") and a not in walk.attributes(cls))
    return repr((shapes, [getattr(node, name) for name in names]))


# Calls of ``detach()`` whose result is dropped: the value goes on into the loss with its graph.

MOST_DROPS = 2
"""Losses whose functions are searched for such a call; only where there is one are more looked at."""
MOST_LOSSES = 8

_CALLS = frozenset({"CALL", "CALL_METHOD", "CALL_FUNCTION"})
_QUIET = frozenset({"PRECALL", "PUSH_NULL", "NOP", "CACHE"})
_ADDS = frozenset({"AddBackward0", "SubBackward0", "NegBackward0", "SumBackward0", "MeanBackward0"})


class Drop(NamedTuple):
    """``name.detach()`` as a statement of its own. ``value`` is the extent of what was bound to the name before, by the
    instruction ``bound``; ``at`` is the call's instruction."""

    code: CodeType
    name: str
    at: int
    bound: int
    value: tuple[int, int, int, int]


class Dropped(Watch):
    """``detach-dropped``: ``stack`` is such a call, ``other`` where the value goes on, ``parameters`` those behind it
    that an optimizer holds; ``facts["name"]``. All of them are in the loss by another way too, so that the value may be
    a constant; where it is the only way, a leftover is more likely."""

    def set_up(self) -> None:
        self._drops: dict[int, list[Drop]] = {}
        """By the id of the code, which the drop or this table keeps."""
        self._codes: list[CodeType] = []

    def called(self, call: EngineCall) -> None:
        some = any(self._drops.values())
        if self._found or not self._may_look(MOST_LOSSES if some else MOST_DROPS):
            return
        made = [stacks.stack_of(node) for node in call.order.nodes]
        drops = self._drops_of({id(m.chain): m for m in made if m is not None})
        raws = [m.raw if m is not None else [] for m in made] if drops else []
        for drop in drops:
            used = self._is_leak(call.order, raws, drop)
            if used is not None:
                self._note(call.noted, drop, raws[used[0]], used[1])

    def _drops_of(self, made: dict[int, stacks.Stack]) -> list[Drop]:
        """The drops in the functions that made a graph, of which each has a chain of calls for all its nodes."""
        found: dict[Drop, None] = {}
        for stack in made.values():
            for code in stack.raw[::2]:
                if isinstance(code, CodeType):
                    if id(code) not in self._drops:
                        self._codes.append(code)
                        self._drops[id(code)] = _drops(code)
                    found.update(dict.fromkeys(self._drops[id(code)]))
        return list(found)

    def _is_leak(self, order: walk.Graph, raws: list[Any], drop: Drop) -> tuple[int, set[int]] | None:
        """The node that takes the value after the drop, and the parameters behind it; None where the value is no
        constant that was meant: the loss has to reach every parameter without it. A term of the loss is none, which
        would do nothing as a constant."""
        calls = [zip(raw[::2], raw[1::2], strict=True) for raw in raws]
        places = [next((at for code, at in call if code is drop.code), None) for call in calls]  # the innermost
        extents = [(n, position(drop.code, at)) for n, at in enumerate(places) if at is not None]
        inside = {n for n, at in extents if drop.value[:2] <= at[:2] and at[2:] <= drop.value[2:]}
        if not inside or len(order) >= walk.DEEP - 1:
            return None
        taken: dict[int, int] = {}
        for number, found in enumerate(order):
            at = places[number]
            if number not in inside and at is not None and not drop.bound <= at <= drop.at:
                taken.update((f, number) for f in found.following if f in inside)
        roots = set(range(len(order))) - {f for found in order for f in found.following}
        if inside & _terms(order, roots):
            return None
        without = _leaves(order, roots or {0}, set(taken))
        behind = _leaves(order, set(taken), set())
        mine = behind & self._journal.held()
        return (next(iter(taken.values())), mine) if mine and behind <= without else None

    def _note(self, noted: Noted, drop: Drop, used: Any, mine: set[int]) -> None:
        if not self._often(drop, OFTEN) or self._found:
            return
        at = next(i for i in range(0, len(used), 2) if used[i] is drop.code)
        facts = {"name": drop.name, "backward": self._line(noted)}
        stack = [drop.code, drop.at, *used[at + 2 :]]
        self._report(self._sign("detach-dropped", stack, used, mine, event=noted[0], count=OFTEN, facts=facts))


def _terms(order: walk.Graph, roots: set[int]) -> set[int]:
    """The nodes whose values a loss is a weighted sum of, on the way to each as well."""

    def summed(number: int) -> Iterable[int]:
        op, following = order.op(number), order.following(number)
        return following if op in _ADDS or (op in SCALING and len(following) == 1) else ()

    return set(walk.reached(roots, summed))


def _leaves(order: walk.Graph, starts: set[int], left: set[int]) -> set[int]:
    """Ids of the leaves that these nodes lead to, but for what is ``left`` out."""
    inside = walk.reached(starts - left, lambda number: (n for n in order.following(number) if n not in left))
    return {id(order.leaves[n]) for n in inside if n in order.leaves}


def _drops(code: CodeType) -> list[Drop]:
    """Such calls in a function of the user's, in a straight line from where the name was bound."""
    if "detach" not in code.co_names or not is_user_file(code.co_filename):
        return []
    steps = [i for i in dis.get_instructions(code) if i.opname not in _QUIET]
    found = []
    for n in range(1, len(steps) - 2):
        if steps[n].argval != "detach" or steps[n].opname not in ("LOAD_METHOD", "LOAD_ATTR"):
            continue
        if steps[n + 1].opname not in _CALLS or steps[n + 1].arg or steps[n + 2].opname != "POP_TOP":
            continue
        name = steps[n - 1].argval
        name = name[-1] if isinstance(name, tuple) and name else name  # two in one instruction: Python 3.13 and later
        bound = next((m for m in range(n - 1, 0, -1) if _binds(steps[m], name)), 0)
        straight = not any("JUMP" in s.opname or s.opname == "FOR_ITER" for s in steps[bound : n + 1])
        if not steps[n - 1].opname.startswith(("LOAD_", "STORE_FAST_LOAD")) or not bound or not straight:
            continue
        if any(s.is_jump_target for s in steps[bound + 1 : n + 1]) or steps[bound - 1].opname.startswith("UNPACK"):
            continue
        value = position(code, steps[bound - 1].offset)
        found.append(Drop(code, name, steps[n + 1].offset, steps[bound].offset, value))
    return found


def _binds(step: dis.Instruction, name: str) -> bool:
    stores = step.opname.startswith("STORE_") and step.opname not in ("STORE_ATTR", "STORE_SUBSCR")
    return stores and name in (step.argval if isinstance(step.argval, tuple) else (step.argval,))
