"""Records of the run: its calls, optimizers and parameters, what was seen in it, whose code ran, how it ended."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from graphdoc.evidence.graph import Cut, Frame

NO_GRAPH = "element 0 of tensors does not require grad and does not have a grad_fn"
"""What PyTorch says of a loss without graph; also of one that hides it, in whose evidence we say so ourselves."""
STALE_UNSEEN = "one of the variables needed for gradient computation has been modified by an inplace operation"
"""The same of a tensor that was written where no version counter tells."""
USED_AGAIN = "Trying to backward through the graph a second time"
"""The same of a part of the graph that an earlier call has gone through, and that has nothing to free."""
BESIDE = "beside-the-loss"
"""Of a sum (``stack``) that holds a loss and is never differentiated: ``other`` differentiates the loss, ``parameters``
are those that the other terms would train, ``facts["weighed"]`` tells whether one of these has a factor."""
BYPASSED = "bypassed"
ITSELF = "compared-with-itself"
GRADIENTS = "gradients"
"""What was measured of the gradients of one optimizer (``graphdoc.capture.whatif``)."""
GRADIENTS_ASKED = "gradients-asked"
"""The user has asked for these."""
LEFT_OUT = "left-out"
"""Of parameters that no loss depends on: ``stack`` is where the last result was made of them, ``other`` a backward
call, ``facts["positions"]`` where they stand among those of their optimizer, ``facts["apart"]`` whether in a group of
their own."""
LEARNED = "learned"
"""In the mode of a run: steps like the last ones are not recorded."""
AT_END = "at the end"
"""In the facts of a sign: it was seen a few times only, and nothing else until the run had ended."""
SO_FAR = "so far"
"""In the facts of a sign of a second run: the first run, which was not ended early, has looked for the same."""
THINNED = "thinned"
"""In the extras of a run in which steps were not recorded: ``since`` is the last step before the first of these."""
UNDONE = "undone"
"""Of parameters that have their old numbers again before the next step: ``stack`` is the write, ``other`` the step."""
UNREAD = "unread-function"
"""Of a Function with a backward of the user's own, which is given what has a graph and is in that of no loss: ``stack``
is where it was applied, ``other`` a backward call."""
RECOMPUTED = "recomputed"
"""Of parameters that get another gradient, or none, as a checkpoint runs again what ``stack`` has run; ``other`` is a
backward call, ``facts["none"]`` tells that they get none."""
WRITTEN_OVER = "written-over"
"""Of parameters that get another gradient because a Function writes, at ``stack``, to what it is given: ``facts`` has
the Function, its ``side`` being the method; ``other`` is a backward call."""
LAST_ALONE = "last-alone"
"""A step uses the gradients of the last of ``facts["calls"]`` backward calls at ``other`` alone; ``stack`` takes those
of each away."""
READ_PAST = "read-past"
"""As ``LEFT_OUT``, of parameters inside of a module none of whose forwards runs: ``stack`` is where another parameter
of that module is read instead."""
SAVED_OVER = "saved-over"
"""With the values that the forward has saved these parameters have another gradient: ``stack`` is where that memory is
written, ``other`` a backward call, ``facts["made"]`` the operation that has saved it."""
SECOND_LOOK = frozenset(
    {
        *(BESIDE, BYPASSED, ITSELF, GRADIENTS, LAST_ALONE, LEFT_OUT, READ_PAST, RECOMPUTED, SAVED_OVER, UNDONE),
        *(UNREAD, WRITTEN_OVER),
    }
)
"""Kinds of signs that only a second run gives."""
AS_IF = frozenset({"covered-loss", "constant-term", "cut-off", "cut-term", "stale-parameter", "computed-once"})
"""Kinds of signs whose evidence is that of the failure which it would be if PyTorch raised an error for them."""
SourceTexts = Mapping[str, str]
"""The text of each file of the run, by its name in the frames."""
LAST_LINE = 200_000
"""Lines of a package's file that can be shown lie above this one."""


@dataclass
class Event:
    """One entry of the journal: a backward, grad, step, zero_grad, load_state_dict or grad-mode switch, in order.

    ``root`` is the sequence number of the (first) root's node, ``root_output`` which of its outputs the root is (-1:
    not known), ``other_roots`` the same two numbers of each further one; ``sequence`` the counter's value when it
    happened, ``reaches`` the parameters behind the roots where that was measured. ``optimizer`` is an id in
    ``Evidence.optimizers``. ``number`` counts the calls of its kind in the run, from 1; 0 where that is not known.
    """

    index: int
    kind: str
    sequence: int = -1
    stack: list[Frame] = field(default_factory=list)
    root: int = -1
    root_op: str = ""
    root_count: int = 1
    retain_graph: bool = False
    create_graph: bool = False
    optimizer: int = -1
    occurrence: int = 0
    reaches: list[str] = field(default_factory=list)
    failed: bool = False
    root_output: int = -1
    other_roots: list[int] = field(default_factory=list)
    number: int = 0

    @property
    def roots(self) -> set[tuple[int, int]]:
        """The sequence number of each root's node, and which of its outputs it is (-1: not known)."""
        return {(self.root, self.root_output), *zip(self.other_roots[::2], self.other_roots[1::2], strict=False)}

    def starts_with(self, other: Event) -> bool:
        """Whether both calls start from the same tensor, or from the same ones, as far as that is known."""
        mine, others = (self.root, self.root_op, self.root_output), (other.root, other.root_op, other.root_output)
        return self.root >= 0 and mine == others and self.other_roots == other.other_roots


@dataclass
class Optimizer:
    """An optimizer: its class, how the program calls it, its parameters by name, and how often it has stepped.

    ``stack``: the user's frames that made it, outermost first; empty where that was not seen.
    """

    id: int
    type: str
    name: str = ""
    parameters: list[str] = field(default_factory=list)
    steps: int = 0
    stack: list[Frame] = field(default_factory=list)


@dataclass
class Parameter:
    """A parameter or buffer by name, with the optimizers that hold it. ``grad``: none, zero or present.

    ``several_names``: the module that holds it, or one around that, stands in the module tree under more than one.
    """

    name: str
    shape: list[int] = field(default_factory=list)
    dtype: str = ""
    requires_grad: bool = True
    buffer: bool = False
    is_leaf: bool = True
    version: int = -1
    owners: list[int] = field(default_factory=list)
    grad: str = ""
    steps_with_grad: int = 0
    several_names: bool = False


@dataclass
class Sign:
    """What was seen in a run that went on: no error, and yet something that a cause may explain.

    ``kind`` names the question (each audit says what its kinds mean). ``stack`` is the place that it is about,
    ``other`` a second one, ``cut`` where a chain of gradients ends; ``parameters`` and ``optimizer`` say whose it is;
    ``event`` is the journal index at which it was certain, ``count`` how often it was seen until then. ``weak``: it may
    well be meant, and is told only to those who ask for everything.
    """

    kind: str
    stack: list[Frame] = field(default_factory=list)
    other: list[Frame] = field(default_factory=list)
    cut: Cut | None = None
    parameters: list[str] = field(default_factory=list)
    optimizer: int = -1
    event: int = -1
    count: int = 0
    weak: bool = False
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass
class Package:
    """An installed package whose code stood on a stack: its name and version as its installer recorded them.

    ``files`` are its files as named in the frames; ``sources`` the functions of each that were running there, as text
    by line number (a decimal string, from 1). ``folder`` is what it was installed into, named as they are.
    """

    name: str
    version: str = ""
    files: list[str] = field(default_factory=list)
    sources: dict[str, dict[str, str]] = field(default_factory=dict)
    folder: str = ""

    @property
    def told(self) -> str:
        """``unet 0.7.7``."""
        return f"{self.name} {self.version}".strip()

    def path_of(self, file: str) -> str:
        """One of its files as the package has it: ``unet/encoding.py``."""
        path, folder = (name.replace("\\", "/") for name in (file, self.folder))
        return re.sub(r".*-packages/", "", path.removeprefix(f"{folder}/"))

    def text(self, file: str) -> str:
        """What is kept of a file, each line at its own number; the others are empty."""
        told = self.sources.get(file, {}).items()
        kept = {int(n): line for n, line in told if n.isascii() and n.isdigit() and len(n) < 8}
        kept = {n: line for n, line in kept.items() if n <= LAST_LINE}
        return "\n".join(kept.get(n, "") for n in range(1, max(kept, default=0) + 1))


@dataclass
class Raised:
    """The exception as it was raised. ``stack`` is its traceback, outermost first; ``causes`` the chain behind it;
    ``in_a_row`` how many backward calls of one place have failed at the end of the run, where the program caught it."""

    type: str
    message: str
    stack: list[Frame] = field(default_factory=list)
    uncaught: bool = True
    in_a_row: int = 0
    causes: list[str] = field(default_factory=list)


@dataclass
class Process:
    """The process that wrote this file."""

    pid: int = 0
    rank: int = -1
    world_size: int = 1
    argv: list[str] = field(default_factory=list)
    cwd: str = ""
    python: str = ""
    torch: str = ""
    started: float = 0.0
    written: float = 0.0
