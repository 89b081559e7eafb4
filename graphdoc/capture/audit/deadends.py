"""Gradients that are zero whatever the numbers are: dead ends of a graph, and parameters reached by a scale alone."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from graphdoc.capture.audit.watch import ENOUGH, EngineCall, Sparse
from graphdoc.capture.events.journal import Noted, Seen
from graphdoc.capture.graph import summands, walk
from graphdoc.capture.graph.summands import is_linear, kind_of
from graphdoc.capture.graph.walk import Graph
from graphdoc.capture.places import stacks
from graphdoc.capture.places.frames import made_at, site_of
from graphdoc.capture.tensors import saved
from graphdoc.capture.tensors.facts import parameters_of
from graphdoc.capture.tensors.living import Ref
from graphdoc.capture.tensors.number_facts import numbers_of
from graphdoc.evidence import Sign

# Parameters of which each element's own way to the loss is flat, and that are reached through a scale alone.
# ``round(w / s) * s`` with ``s = w.abs().amax()``: the derivative of the rounding is zero, and what arrives at ``w``
# is the gradient of ``s``. Read off the graph: no number is looked at.

_ELEMENTWISE = (
    *("Abs", "Add", "Sub", "Mul", "Div", "Neg", "Pow", "Exp", "Log", "Sqrt", "Rsqrt", "Reciprocal", "Tanh", "Sigmoid"),
    *("Clamp", "ClampMin", "ClampMax", "Clone", "ToCopy", "Relu", "T", "Transpose", "View", "UnsafeView", "Reshape"),
    *("Permute", "Unsqueeze", "Squeeze", "Expand", "Alias", "Maximum", "Minimum"),
)
"""Nodes of operations by which each element of the result comes from one element of each operand."""
_REDUCING = (
    *("Amax", "Amin", "Max", "Min", "Mean", "Sum", "Std", "Var", "Norm", "LinalgVectorNorm", "Median", "Aminmax"),
    *("StdMean", "VarMean"),
)
_CURVED = ("Softplus", "Log1p", "Expm1", "Xlogy")
MOST_CLIMBED = 200
"""Nodes above one parameter that are looked at."""


def _flat(order: Graph, leaf: int, zero: Collection[int], above: walk.Above, over: set[int]) -> tuple[int, int] | None:
    """Of a leaf at this position that is reached through a scale alone, the positions of a node that lets nothing pass
    (of these the derivative is ``zero``) and of one that the rest comes through; None of another leaf."""
    elements = order.leaves[leaf].numel()

    def of_leaf(number: int) -> str:
        kind, whole = kind_of(order.nodes[number]), _elements(order.nodes[number]) == elements
        if number in zero:
            return "stop"
        return "scale" if kind in _REDUCING and number not in over else "on" if kind in _ELEMENTWISE and whole else ""

    def of_scale(number: int) -> str:
        """All that is made of the scale goes into the value that was flattened, element by element: there both meet."""
        if number in zero:
            return "stop"
        met = number in over and _elements(order.nodes[number]) == elements
        return "" if kind_of(order.nodes[number]) not in _ELEMENTWISE else "met" if met else "on"

    kinds = _climbed(above, leaf, of_leaf)
    stops, scales = ([n for n, kind in kinds.items() if kind == wanted] for wanted in ("stop", "scale"))
    enough = stops and scales and elements > 1
    whole = enough and all({*_climbed(above, s, of_scale).values()} - {"stop"} for s in scales)
    return (stops[0], scales[0]) if whole else None


def _climbed(above: walk.Above, start: int, kind: Callable[[int], str]) -> dict[int, str]:
    """The nodes above this one by kind, past those that are ``on`` the way; none where one has no kind, a way ends
    without another kind, or they are many."""
    todo, kinds = list(above[start]), dict[int, str]()
    while todo:
        number = todo.pop()
        if number in kinds:
            continue
        own = kinds[number] = kind(number)
        further = above[number] if own == "on" else []
        if not own or len(kinds) > MOST_CLIMBED or (own == "on" and not further):
            return {}
        todo += further
    return kinds


def _elements(node: Any) -> int:
    """How many elements the operation's result has; 0 where the node does not tell."""
    shape = walk.output_shape(node)
    return math.prod(shape) if shape is not None else 0


# Parts of a loss through which the gradient is zero whatever the numbers are: a graph exists, nothing learns by it.
# Told from the graph alone: an operation whose derivative PyTorch defines as zero, or a sum in which a value is added
# and taken away again while the rest has no derivative. The gradients of a few steps have to agree. Or nothing
# but a scale leads past such an operation.

ZERO = {"RoundBackward0", "RoundBackward1", "SignBackward0", "SgnBackward0", "FloorBackward0", "CeilBackward0"}
ZERO |= {"TruncBackward0"}
"""Nodes that give zeros (derivatives.yaml), as the types are called."""
DRAWS = {f"NormalBackward{n}" for n in (1, 2, 3)} | {"BernoulliBackward0", "BernoulliBackward1", "PoissonBackward0"}
"""The same of random draws from parameters, as far as they are recorded."""
_SIZES = {"PowBackward0", "AbsBackward0"}
_DISTANCES = {"MseLossBackward0", "SmoothL1LossBackward0", "HuberLossBackward0"}
"""Nodes of a square or a size, and of the same of a difference, whose slope is zero at zero."""
UNREGISTERED = "torch::autograd::WarnNotImplemented"
"""The node of an operator's result that has no autograd kernel and gave no graph of its own: it gives nothing."""
_SHARES = ("SoftmaxBackward0", "LogSoftmaxBackward0")
"""Nodes that give zeros along a dimension of size one, where a share is 1 whatever it is made of."""
_OWN_SIZES = ("Sum", "Mean", "Amax", "Amin", "Max", "LinalgVectorNorm", "Norm", "Logsumexp", "Logcumsumexp")
"""Reductions that give back a number, or its size, along a dimension of size one."""
_ALONG = ("ClampMin", "Clamp", "Expand", "Unsqueeze", "View", "Flip")
"""What changes no number on the way from one of these, or to it."""
_DEVIATIONS = ("StdBackward0", "VarBackward0")
"""Nodes that give zeros along a dimension of size one, where nothing deviates; with a correction the result is nan."""
_LAYERS = ("NativeLayerNormBackward0", "NativeGroupNormBackward0")
"""Nodes of layers whose first input is what they normalise, and the others their weight and bias."""
ROUNDING = 1e-4
"""The part of other gradients that is as good as zero where the graph says that it is zero but for rounding."""
_SUMS = {"AddBackward0": 1, "SubBackward0": -1}
MOST_LOOKS = 6
MOST_NODES = 4000
MOST_TERMS = 12
"""Terms of one loss that are looked at one by one."""
DEEPEST = 5
"""Additions inside each other that are worked out."""

Key = tuple[Any, int]
Single = tuple[int | None, ...]
"""The one dimension of size one over which a result is taken; None where a layer normalises groups of one element."""


class DeadEnds(Sparse):
    """``zero-derivative``, ``cancelled`` and ``from-itself`` (a distance that is zero in every element): ``stack`` is
    the operation through which no gradient passes, ``other`` the backward call, ``parameters`` those behind it that an
    optimizer steps; ``facts["inner"]`` is the place of the difference in which the value is taken away,
    ``facts["equal"]`` that a ratio is of a value and itself, computed twice, ``facts["single"]`` the dimension of size
    one that a softmax or a division by its own size is over; None for a layer that normalises groups of one element;
    ``facts["term"]``: the parameters learn by other terms of the loss; whether this one reaches nothing past the
    operation.
    ``scale-alone``: the gradient of the parameters is that of a scale, made at ``facts["scale"]``; at least
    ``facts["zeros"]`` of it were exactly zero in each step."""

    def set_up(self) -> None:
        self._refs: dict[int, Any] = {}
        self._met: Sign | None = None
        self._zeros = 0
        self._rounds = False
        """The gradient is zero by the graph, and perhaps not but for rounding."""
        self._share = 1.0
        """The smallest part of a gradient that was zero, of those that come through a scale."""
        self._weights: dict[Any, list[float | None]] = {}
        """By the place of a draw: what the other terms had as constant sides of products at the first look."""
        self._due = self._told = 0
        """The step, or event, at which to look again at what was told: twice as late each time, an event since that."""
        self._place: tuple[type, Any] = (object, None)
        """Of what was told of a term: the kind of its node, and the expression that has made it."""

    def called(self, call: EngineCall) -> None:
        told = self._found and "term" in self._found[0].facts and call.noted[0] >= self._due
        if not told and (self._met is not None or not self._may_look(MOST_LOOKS)):
            return
        order = call.order
        nodes = enumerate(order.nodes) if len(order) < MOST_NODES else ()
        blocks = {n: block for n, node in nodes if (block := _block(node)) is not None}
        if told:  # a perturbation begins at zero perhaps
            self._due = 2 * call.noted[0] - self._told
            if _alive_at(*self._place, order, blocks.values()):
                self._found = []
        elif blocks:
            self._look(call.noted, order, blocks)
            if self._met is None:
                self._look_at_terms(call.noted, order, {order.nodes[n]: b for n, b in blocks.items()}, call.roots)

    def _look_at_terms(self, noted: Noted, every: Graph, known: dict[Any, Block], roots: list[Any]) -> None:
        """Whether one of several terms reaches what an optimizer holds through such operations alone; or whether all
        that it gives to some of them comes through a result that is a constant, and is one in the other terms too."""
        audit = self._audit
        held, terms = audit.journal.held(), summands.terms_of(roots)
        parts = summands.element_terms(roots, known) if any(b.kind == "cancelled" for b in known.values()) else []
        several = [t for some in (terms, parts) if len(some) > 1 for t in some[:MOST_TERMS]]
        for term in dict.fromkeys(several):
            order = walk.walk([term], MOST_NODES)
            blocks = {n: known[node] for n, node in enumerate(order.nodes) if node in known}
            # What is a constant by its shape counts where nothing else ends a gradient.
            dead = {n: b for n, b in blocks.items() if not b.single} or blocks
            found = dominating(order, dead, audit.torch.nn.Parameter) if dead else None
            block = dead[found[0]] if found is not None else None
            if found is None or block is None or block.own:  # of a distance from themselves ``References`` tells
                continue
            if term not in terms and (block.kind != "cancelled" or block.passes):
                continue  # ``x - x.floor()``: a part of a sum may well be flat
            if not all(map(_is_looked_up, block.passes)):
                continue  # ``v + (q - v)``, ``(v + a) - v``: a value and its parts
            place = type(block.node), (made_at(block.node) or ())[:1]
            alike = _alive_at(*place, every, known.values())
            if any(id(getattr(n, "variable", None)) in {*map(id, found[1])} for n, _ in walk.nodes_behind(alike)):
                continue  # the first of many has a single element to be taken over, and that is right
            whole = all(f.leaf is None or any(f.leaf is p for p in found[1]) for f in order)
            kept = stacks.stack_of(block.node)
            mine = [id(p) for p in found[1] if id(p) in held]
            if not mine or kept is None:
                continue
            if not (whole or block.single or block.passes or self._is_unscored(order, roots, *found)):
                continue
            if self._often(site_of(kept), ENOUGH):
                audit.snapshot()
                sign = self._met = self._sign_of(block, noted, kept)
                sign.facts["term"] = whole
                sign.parameters, sign.count = audit.named(mine), ENOUGH
                self._place, self._told = place, noted[0]
                self._report(sign)
                return

    def _is_unscored(self, term: Graph, roots: list[Any], number: int, missed: list[Any]) -> bool:
        """Whether this is a draw, and the other terms that reach its parameters weigh nothing, as they would weigh its
        log-probability: by another number for each element or in each call. The weight of a term into which the draw
        cannot have gone may change."""
        node = term[number].node
        if type(node).__name__ not in DRAWS:
            return False
        weights, varied = list[float | None](), summands.constants(summands.top_of(roots))
        given, held = {n for n, _ in walk.nodes_behind(walk.inputs_of(node))}, list[bool]()
        for other in (walk.walk([t], MOST_NODES) for t in summands.terms_of(roots) if t is not term.nodes[0]):
            alive = _alive(other, {f.number: True for f in other if _is_zero(f.node)})
            if any(other[n].leaf is p for n in alive for p in missed):
                outer = _outer(other)
                varied += summands.constants(outer)
                weights += summands.constants(n for n in other.nodes if n not in outer)
                held.append(_may_hold_more(other, given))
        if None in weights + varied:
            return False
        # A sum of numbers may be a log-probability too, of which each is weighed by what was drawn.
        weights += [] if held == [False] and _elements(node) > 1 else varied
        return self._weights.setdefault(made_at(node), weights) == weights

    def _look(self, noted: Noted, order: walk.Graph, dead: dict[int, Block]) -> None:
        if self._look_for_scales(noted, order, {n for n in dead if type(order.nodes[n]).__name__ in ZERO}):
            return
        found = dominating(order, dead, self._audit.torch.nn.Parameter)
        if found is None:
            return
        nearest, missed = found
        block = dead[nearest]
        kept = stacks.stack_of(block.node)
        if kept is None:
            return
        self._met = self._sign_of(block, noted, kept)
        self._rounds = bool(block.single) and type(block.node).__name__ not in _SHARES
        self._refs = {id(p): Ref(p) for p in missed}

    def _sign_of(self, block: Block, noted: Noted, kept: stacks.Stack) -> Sign:
        sign = self._met_at(block.kind, block.node, kept, noted)
        sign.facts["inner"] = self._line(stacks.stack_of(block.inner) if block.inner is not None else None)
        sign.facts |= {"equal": True} if block.equal else {}
        sign.facts |= {"single": block.single[0]} if block.single else {}
        return sign

    def _look_for_scales(self, noted: Noted, order: walk.Graph, zero: set[int]) -> bool:
        """Whether there are parameters of which a scale alone is reached; those of the first place are told."""
        kind = self._audit.torch.nn.Parameter
        leaves = [f.number for f in order if type(f.leaf) is kind and not f.leaf._backward_hooks]
        first: stacks.Stack | None = None
        above = walk.Above(order)
        over = set(walk.reached(zero, above.__getitem__)) if zero else set[int]()
        for number in leaves if zero else ():
            flat = _flat(order, number, zero, above, over)
            kept, scale = [stacks.stack_of(order.nodes[n]) for n in flat or ()] or (None, None)
            if flat is None or kept is None or scale is None:
                continue
            if first is None:
                first = kept
                self._met = self._met_at("scale-alone", order.nodes[flat[0]], kept, noted)
                self._met.facts["scale"] = self._line(scale)
            if site_of(kept) == site_of(first):
                leaf = order[number].leaf
                self._refs[id(leaf)] = Ref(leaf)
        return first is not None

    def stepped(self, optimizer: Any, seen: Seen) -> None:
        sign = self._met
        if sign is None or not self._refs or seen.steps < self._due or (seen.steps > 3 * ENOUGH and not self._found):
            return
        audit = self._audit
        mine = [p for p in parameters_of(optimizer) if id(p) in self._refs and self._refs[id(p)]() is p]
        if not mine:
            return
        grads = [numbers_of(p.grad) if p.grad is not None else None for p in mine]
        least = self._rounding(optimizer) if self._rounds else 0.0
        zero = all(g is not None and bool((g.abs() <= least).all()) for g in grads)
        if sign.facts["op"] == UNREGISTERED:
            zero = all(p.grad is None for p in mine)
        if sign.kind == "scale-alone":
            shares = [1.0 - int(g.count_nonzero()) / max(g.numel(), 1) for g in grads if g is not None]
            zero, self._share = len(shares) == len(grads), min([self._share, *shares])
        if self._found:
            self._due = 2 * seen.steps
            if any(g is not None and bool((g.abs() > least).any()) for g in grads) and sign.kind != "scale-alone":
                self._found, self._refs = [], {}  # the size of the dimension has grown, or another loss has begun
            return
        if not zero:
            self._refs = {}  # another loss gives them gradients
            return
        self._zeros += 1
        if self._zeros == ENOUGH:
            audit.snapshot()
            sign.parameters = audit.named(map(id, mine))
            sign.optimizer, sign.count = seen.id, ENOUGH
            if sign.kind == "scale-alone":
                sign.facts["zeros"] = self._share
            self._report(sign)

    def _rounding(self, optimizer: Any) -> float:
        """What a gradient may have by rounding, beside those of the optimizer's other parameters."""
        grads = (p.grad for p in parameters_of(optimizer) if id(p) not in self._refs and p.grad is not None)
        largest = max(
            (float(g.abs().max()) for g in map(numbers_of, grads) if g is not None and g.numel()), default=0.0
        )
        return max(ROUNDING * largest, 1e-6)

    @property
    def told(self) -> set[int]:
        """Ids of the parameters of which it is known why their gradient is zero."""
        return set(self._refs) if self._found else set()


def dominating(order: Graph, dead: Mapping[int, Any], kind: type) -> tuple[int, list[Any]] | None:
    """The one of these nodes, which pass nothing on (or, of a ``Block``, to some only), through which every way leads
    to the parameters (of this class) that are reached through such nodes alone; and these parameters. None where there
    are none, or several nodes that one expression has not made: a layer may stand in a network more than once."""
    alive = _alive(order, dead)
    missed = {f.number: f.leaf for f in order if type(f.leaf) is kind and f.number not in alive}
    met = [n for n in dead if n in alive]
    if not missed or not met:
        return None
    bits = walk.gather(order, ((n, 1 << i) for i, n in enumerate(missed)))
    rank = {n: (bits[n].bit_count(), type(order[n].node).__name__ not in _DEVIATIONS, order[n].sequence) for n in met}
    nearest = max(met, key=rank.__getitem__)
    place = made_at(order[nearest].node)
    alike = [bits[n] for n in met if n == nearest or (place is not None and made_at(order[n].node) == place)]
    together = functools.reduce(operator.or_, alike)
    return (nearest, list(missed.values())) if together.bit_count() == len(missed) else None


def _alive(order: Graph, dead: Mapping[int, Any]) -> set[int]:
    """The nodes that the gradient comes to, past none of these but to what a ``Block`` passes it on to."""
    passes = {n: b.passes for n, b in dead.items() if isinstance(b, Block) and b.passes}
    numbers = order.numbers_of(node for nodes in passes.values() for node in nodes) if passes else {}

    def ways(number: int) -> Iterable[int]:
        following = order.following(number)
        if number not in dead:
            return following
        layer = type(order.nodes[number]).__name__ in _LAYERS
        return following[1:] if layer else [numbers[n] for n in passes.get(number, ())]

    return set(walk.reached([0], ways))


def _outer(order: Graph) -> list[Any]:
    """The nodes at the top of a term that scale all of it, or sum all of it up."""
    node, found = order.nodes[0], list[Any]()
    while len(walk.inputs_of(node)) == 1 and is_linear(node):
        found.append(node)
        (node,) = walk.inputs_of(node)
    return found


def _may_hold_more(order: Graph, given: Collection[Any]) -> bool:
    """Whether the gradients of a term may depend on more than ``given``, the nodes that it is computed from, and on
    single numbers that it is scaled by. What is only added to it has no part in its gradients."""
    above = walk.Above(order)
    for number, node in enumerate(order.nodes):
        kind = kind_of(node)
        if node in given:
            continue
        numbers = any(n in given and _elements(n) < 2 for n in walk.inputs_of(node))
        if numbers or kind not in _ELEMENTWISE + _REDUCING + summands.LINEAR + _CURVED:
            return True
        if None in (n for n, _ in node.next_functions):
            ups = walk.reached([number], above.__getitem__)
            scaled = kind in ("Mul", "Div") and summands.factor_of(node) is not None
            if not scaled and not (kind in ("Add", "Sub", "Rsub") and all(is_linear(order.nodes[n]) for n in ups)):
                return True
    return False


def _alive_at(kind: type, at: Any, order: Graph, blocks: Iterable[Block]) -> list[Any]:
    """The nodes of this kind that an expression has made and that are no block."""
    dead = {b.node for b in blocks}
    return [n for n in order.nodes if type(n) is kind and n not in dead and (made_at(n) or ())[:1] == at]


def _is_zero(node: Any) -> bool:
    return type(node).__name__ in ZERO or type(node).__name__ in DRAWS


def distance_of(node: Any) -> Any:
    """The node of a difference from a constant that is zero in every element, and of which the square or the size is
    taken: the slope of that is zero there. None for another node."""
    name = type(node).__name__
    try:
        below = node if name in _DISTANCES else node.next_functions[0][0] if name in _SIZES else None
        ways = below.next_functions if below is not None else ()
        difference = below is node or (type(below).__name__ == "SubBackward0" and len(ways) == 2)
        if not difference or all(n is not None for n, _ in ways):
            return None
        value = saved.numbers(node, "self")
        other = saved.numbers(node, "target") if below is node else 0.0
        steep = name == "PowBackward0" and float(node._saved_exponent) <= 1.0
        return None if value is None or other is None or steep or bool((value != other).any()) else below
    except (AttributeError, IndexError, TypeError, RuntimeError):
        return None


@dataclass(frozen=True)
class Block:
    """An operation, ``node``, that gives zeros, or nothing but to ``passes``.

    ``kind`` is that of the sign; ``inner`` the difference in which a sum takes a value away (or ``node`` itself), or
    None; ``equal``: its sides are the same value, computed twice; ``single``: it gives zeros because it is taken over
    one element; ``own``: it is parameters that are taken away from themselves.
    """

    node: Any
    kind: str = "zero-derivative"
    inner: Any = None
    passes: tuple[Any, ...] = ()
    equal: bool = False
    single: Single = ()
    own: bool = False


def _block(node: Any) -> Block | None:
    name = type(node).__name__
    if _is_zero(node) or walk.op_of(node) == UNREGISTERED:
        return Block(node)
    distance = distance_of(node)
    if distance is not None:
        return Block(distance, kind="from-itself")
    single = constant_over(node)
    if single:
        return Block(node, single=single)
    ratio = _of_itself(node) if name == "ExpBackward0" else None
    if ratio is not None or name not in _SUMS:
        return Block(ratio, "cancelled", ratio, equal=True) if ratio is not None else None
    inner: list[Any] = []
    terms: dict[Key, float] = {}
    _expand(node, 1.0, terms, inner, 0)
    cancelled = [key for key, factor in terms.items() if factor == 0.0]
    passes = tuple(n for (n, _), factor in terms.items() if factor != 0.0 and not _is_zero(n))
    # A loss may well take off what a model has added to it.
    if not cancelled or (passes and _elements(node) < 2):
        return None
    own = all(hasattr(n, "variable") for n, _ in cancelled)
    inside = inner[0] if name == "AddBackward0" and len(inner) == 1 else node
    return Block(node, "cancelled", inside, passes, own=own)


def _is_looked_up(node: Any) -> bool:
    """Whether a value was taken from a table, by indices or a product with ones and zeros."""
    at = next((n for n in walk.reached([node], walk.inputs_of) if type(n).__name__ not in walk.VIEWS), node)
    held = [hasattr(n, "variable") for n in walk.inputs_of(at)]
    return kind_of(at) in ("Embedding", "Index", "IndexSelect", "Gather") or (
        kind_of(at) in summands.PRODUCTS and held == [True]
    )


def _of_itself(node: Any) -> Any:
    """The difference of which this is the ``exp()``, where it is 1 throughout and its sides are the same function of
    the same leaves: a ratio of a value and itself, computed twice."""
    below = (walk.inputs_of(node) or [None])[0]
    numbers = saved.numbers(node, "result") if type(below).__name__ == "SubBackward0" else None
    if numbers is None or not bool((numbers == 1).all()):
        return None
    sides = below.next_functions
    return below if sides[0][0] is not None and _is_same_function(*sides) else None


def _is_same_function(*sides: Key) -> bool:
    """Whether two values are computed by the same operations from the same leaves, and the same numbers are saved."""
    todo, seen = [sides], set[Any]()
    while todo:
        (one, number), (other, its) = todo.pop()
        if number != its or len(seen) > MOST_NODES:
            return False
        if one is not other and (one, other) not in seen:
            seen.add((one, other))
            ways = [n.next_functions if n is not None else () for n in (one, other)]
            if not ways[0] or len(ways[0]) != len(ways[1]) or not has_saved_the_same(one, other):
                return False
            todo += zip(*ways, strict=True)
    return True


def has_saved_the_same(one: Any, other: Any) -> bool:
    """Whether two nodes of PyTorch's own give the same gradient for the same; False where that cannot be read."""
    if type(one) is not type(other) or hasattr(one, "_forward_cls"):
        return False
    tensors = walk.attributes(type(one))
    for name in (n for n in dir(type(one)) if n.startswith("_saved_")):
        if name in tensors and any(saved.may_be_hooked(getattr(n, "_raw" + name)) for n in (one, other)):
            return False
        try:
            if name not in tensors:
                if getattr(one, name) != getattr(other, name):
                    return False
                continue
            mine, theirs = ([numbers_of(t) for t in saved.contents(n, name)] for n in (one, other))
            if not all(x is not None and y is not None and x.equal(y) for x, y in zip(mine, theirs, strict=True)):
                return False
        except (RuntimeError, ValueError):
            return False  # written over since, perhaps
    return True


def constant_over(node: Any) -> Single:
    """Whether a result is a constant because it is taken over a single element; empty where it is not."""
    name = type(node).__name__
    try:
        if name in _SHARES:
            return _single(node._input_metadata[0].shape, node._saved_dim)
        if name == "NativeLayerNormBackward0":
            return (None,) if all(int(n) == 1 for n in node._saved_normalized_shape) else ()
        if name == "NativeGroupNormBackward0":
            return (None,) if int(node._saved_C) * int(node._saved_HxW) == int(node._saved_group) else ()
        if name in ("DivBackward0", "SubBackward0"):
            one, two = node.next_functions[:2]
            return _by_own_size(node, one, two) or (_by_own_size(node, two, one) if name == "SubBackward0" else ())
        if name in _DEVIATIONS and node._saved_correction == 0 and len(node._saved_dim or ()) == 1:
            return _single(node.next_functions[0][0]._input_metadata[0].shape, node._saved_dim[0])
    except (AttributeError, IndexError, TypeError, RuntimeError):
        pass
    return ()


def _by_own_size(node: Any, value: Key, at: Key) -> Single:
    """Of ``x / x.sum(1, keepdim=True)``, ``x - x.logsumexp(1, keepdim=True)`` and the like, where that has size 1."""
    found: Single = ()
    for _ in range(DEEPEST):
        if found and at == value:
            return found
        ways = [w for w in at[0].next_functions if w[0] is not None] if at[0] is not None else []
        if len(ways) != 1:
            break
        kind, at, over = kind_of(at[0]), ways[0], at[0]
        if kind in _OWN_SIZES and not found:
            shape, dims = at[0]._input_metadata[at[1]].shape, over._saved_dim
            singles = [_single(shape, d) for d in (dims if isinstance(dims, tuple | list) else (dims,))]
            if not singles or not all(singles):
                break
            found = singles[0]
        elif kind not in _ALONG and not (kind == "Add" and _is_same(node)):
            break
    return ()


def _is_same(node: Any) -> bool:
    """Whether a quotient is of a value and itself: what was added to the divisor is too small to count."""
    value, other = (saved.numbers(node, name) for name in ("self", "other"))
    return value is not None and other is not None and value.shape == other.shape and bool((value == other).all())


def _single(shape: Any, dim: Any) -> Single:
    """The dimension, if it has size one."""
    dim = saved.signed(dim)
    return (dim,) if -len(shape) <= dim < len(shape) and shape[dim] == 1 else ()


def _expand(node: Any, factor: float, terms: dict[Key, float], inner: list[Any], depth: int) -> None:
    """The nodes that a sum is made of, with their factors."""
    sign = _SUMS[type(node).__name__]
    for side, (following, number) in enumerate(node.next_functions):
        if following is None:
            continue
        try:
            weight = factor * (sign * float(node._saved_alpha) if side else 1.0)
        except (AttributeError, TypeError, RuntimeError):
            weight = factor * (sign if side else 1)
        if type(following).__name__ in _SUMS and depth < DEEPEST:
            if type(following).__name__ == "SubBackward0":
                inner.append(following)
            _expand(following, weight, terms, inner, depth + 1)
        else:
            key = (following, number)
            terms[key] = terms.get(key, 0.0) + weight
