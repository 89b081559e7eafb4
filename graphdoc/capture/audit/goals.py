"""Goals of a loss that are predicted by the network which is to reach them, and still have their graph."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf, lgamma
from typing import Any, NamedTuple

from graphdoc.capture.audit.constants import LINEAR, ends_of
from graphdoc.capture.audit.watch import OFTEN, EngineCall, Watch
from graphdoc.capture.events.journal import leaves_behind
from graphdoc.capture.graph import walk
from graphdoc.capture.places import stacks
from graphdoc.capture.places.frames import site_of
from graphdoc.capture.tensors import saved

MOST_GOALS = 12
"""Backward calls that are looked at for one."""
MOST_UNSURE = 80
"""The same where a goal may be a label: at first a network is sure of none."""
SELDOM = 9.0
"""The logarithm of how seldom chance would choose such rows."""
HIGHEST = 12
"""Operations between a product and the choice of its rows."""

_ENTROPIES = {"BinaryCrossEntropyWithLogitsBackward0", "BinaryCrossEntropyBackward0"}
_SOFTMAX = {"SoftmaxBackward0", "LogSoftmaxBackward0"}
_SCALED = LINEAR | {"DivBackward0", "MulBackward0", "PowBackward0", "ExpBackward0"}
"""What sharpens probabilities, and brings their sum back to one."""
_BOUNDS = (_SCALED - {"PowBackward0"}) | {"TanhBackward0", "HardsigmoidBackward0", "ClampBackward0", "ClampBackward1"}
_CHANCES = _SOFTMAX | {"SigmoidBackward0", "AddmmBackward0", "MmBackward0", "ConvolutionBackward0"}
"""What gives a probability, or by such bounds the number that one is made of."""


class _Goal(NamedTuple):
    """A loss, the prediction that it trains, and the goal that this is compared with."""

    loss: Any
    predicted: Any
    goal: Any
    operand: int
    """Which argument of the loss, or factor of the product, the goal is."""


class Goals(Watch):
    """``goal-trained``: ``stack`` is where the goal of a loss was made, ``other`` that loss, ``parameters`` those that
    both of its sides lead to. The goal is computed from another term of the loss, so it tells how good a prediction is;
    or, with ``facts["chosen"]``, it is the same network's, of another input, and its own confidence chooses the rows
    that count. ``facts["operand"]`` is the place of the goal in that call or product, ``facts["apart"]`` tells whether
    it is used as a goal or a weight alone, so that a graph is wanted of it nowhere."""

    _unsure = False

    def set_up(self) -> None:
        self._seldom: dict[Any, float] = {}
        """By the place of a label: the logarithm of how seldom rows that do not depend on it are its surest."""

    def called(self, call: EngineCall) -> None:
        if self._found or not self._may_look(MOST_UNSURE if self._unsure else MOST_GOALS):
            return
        nodes = call.order.nodes
        goals = list(_goals(nodes)) if len(nodes) < walk.DEEP - 1 else []
        if not goals:
            return
        softmax = [n for n in nodes if type(n).__name__ == "LogSoftmaxBackward0"]
        predicted = {g.predicted for g in goals}.union(*map(walk.inputs_of, softmax))
        found = [(g, mine) for g in goals if (mine := self._shared(g, predicted))]
        above = walk.users_of(nodes) if found else {}
        self._unsure = any(not _is_entropy(g.loss) for g, _ in found)
        terms = _terms(call.roots) if found else set()
        found = [(g, m) for g, m in found if not _is_entropy(g.loss) or _rates(g, m, terms)]
        chosen = {g: _chosen(g, above) for g, _ in found if not _is_entropy(g.loss)}
        for goal, mine in found:
            stack, loss = stacks.stack_of(goal.goal), stacks.stack_of(goal.loss)
            if stack is None or loss is None or not chosen.get(goal, 1.0):
                continue
            at = site_of(stack)
            self._seldom[at] = self._seldom.get(at, 0.0) + chosen.get(goal, SELDOM)
            if self._often(at, OFTEN) and self._seldom[at] >= SELDOM:
                sign = self._sign("goal-trained", stack, loss, mine, event=call.noted[0], count=OFTEN)
                sign.facts = {
                    "operand": goal.operand,
                    "apart": _is_apart([goal.goal], goal.loss, above),
                    "chosen": not _is_entropy(goal.loss),
                    "backward": self._line(call.noted),
                }
                self._report(sign)
                return

    def _shared(self, goal: _Goal, predicted: set[Any]) -> set[int]:
        """The ids of the parameters that both sides lead to; none where the goal is to learn by a loss of its own as
        well, or one side is computed from the other, or a label is another network's."""
        inside, before = ({n for n, _ in walk.nodes_behind([side])} for side in (goal.goal, goal.predicted))
        if inside & predicted or goal.goal in before:
            return set()
        held = self._journal.held()
        one, other = ((leaves_behind([n]) or {}).keys() & held for n in (goal.goal, goal.predicted))
        return one & other if one == other or _is_entropy(goal.loss) else set()


def _is_entropy(node: Any) -> bool:
    return type(node).__name__ in _ENTROPIES


def _goals(nodes: list[Any]) -> Iterator[_Goal]:
    """The losses of this graph whose goal has a graph."""
    for node in nodes:
        edges, name = [n for n, _ in node.next_functions], type(node).__name__
        if len(edges) < 2 or edges[0] is None or edges[1] is None:
            continue
        if _is_entropy(node):
            yield _Goal(node, edges[0], edges[1], 1)
        elif name == "MulBackward0":
            for operand in (0, 1):
                logarithms = ends_of([edges[1 - operand]], LINEAR)
                if len(logarithms) == 1 and type(logarithms[0]).__name__ == "LogSoftmaxBackward0":
                    yield _Goal(node, walk.inputs_of(logarithms[0])[0], edges[operand], operand)


def _terms(roots: list[Any]) -> set[Any]:
    """What a loss is a weighted sum of, on the way to each as well; no parameter."""
    found: list[Any] = []
    found += ends_of(roots, LINEAR, passed=found)
    return {n for n in found if walk.inputs_of(n)}


def _rates(goal: _Goal, mine: set[int], terms: set[Any]) -> bool:
    """Whether the goal depends on these parameters by other terms of the loss alone. A probability is no such term:
    what keeps it small does not tell how good it is."""
    start = [goal.goal]
    while (made := ends_of(start, _BOUNDS)) and all(type(n).__name__ in _CHANCES for n in made):
        start = [n for one in made for n in walk.inputs_of(one)]
    start = [n for n in start if n not in terms]
    rest = list(walk.reached(start, lambda n: [i for i in walk.inputs_of(n) if i not in terms], walk.DEEP))
    return len(rest) < walk.DEEP and not any(id(getattr(n, "variable", None)) in mine for n in rest)


def _is_apart(nodes: list[Any], loss: Any, above: dict[Any, list[Any]]) -> bool:
    """Whether these are used as a goal or a weight alone."""
    users = {n for node in nodes for n in above.get(node, ())} - {loss, *nodes}
    return {type(n).__name__ for n in users} <= {"MulBackward0", "XlogyBackward0"}


def _chosen(goal: _Goal, above: dict[Any, list[Any]]) -> float:
    """How seldom by chance the rows of the loss that count are those in which the goal, one distribution that is used
    as a goal alone, is surest: the logarithm; 0 where none are chosen, less than any number where others count."""
    passed: list[Any] = []
    made = ends_of([goal.goal], _SCALED, passed=passed)
    if len(made) != 1 or type(made[0]).__name__ not in _SOFTMAX:
        return 0.0
    before = [*passed, *made]
    before += ends_of(walk.inputs_of(made[0]), set(), passed=before)
    chances = saved.numbers(made[0], "result")
    if chances is None or not _is_apart(before, goal.loss, above):
        return 0.0
    surest = chances.amax(saved.signed(made[0]._saved_dim)).reshape(-1)
    passed += walk.reached([goal.loss], lambda n: above.get(n, ()), HIGHEST)
    every = (_seldom(kept, surest) for node in passed if (kept := _kept_rows(node, surest)) is not None)
    return max((one for one in every if one), default=0.0)


def _kept_rows(node: Any, like: Any) -> Any:
    """Which rows an operation keeps, the others being left out or set to zero; None where it makes no such choice."""
    name, one = type(node).__name__, len(walk.inputs_of(node)) == 1
    kept = None
    if name == "MulBackward0" and one:
        kept = next((f for side in ("other", "self") if (f := saved.numbers(node, side)) is not None), None)
        kept = kept != 0 if kept is not None and bool(((kept == 0) | (kept == 1)).all()) else None
    elif name == "WhereBackward0" and one:
        kept = saved.numbers(node, "condition")
    elif name == "IndexBackward0":
        indices = [t for t in node._saved_indices if t is not None]
        kept = indices[0].detach() if len(indices) == 1 else None
        if kept is not None and not kept.dtype.is_floating_point and kept.dim() == 1 and kept.numel() < like.numel():
            rows = like.new_zeros(like.numel())
            rows[kept] = 1
            kept = rows != 0
    return kept.reshape(-1) if kept is not None and kept.numel() == like.numel() else None


def _seldom(kept: Any, surest: Any) -> float:
    """The same of one choice of rows. Rows that are alike, as the padded ones, tell nothing."""
    inside, outside = surest[kept], surest[~kept]
    if not inside.numel() or outside.numel() < 2 or bool((outside == outside[0]).all()):
        return 0.0
    if bool(inside.min() <= outside.max()):
        return -inf
    every, some, others = (lgamma(n + 1) for n in (kept.numel(), inside.numel(), outside.numel()))
    return every - some - others
