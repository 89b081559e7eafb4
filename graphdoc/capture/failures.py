"""The failures of a run, each kind examined once: TorchScript's own places and unreached inputs among them."""

from __future__ import annotations

import ast
import os
import re
import sys
from collections.abc import Iterator, Sequence
from itertools import islice
from types import FrameType
from typing import TYPE_CHECKING, Any

from graphdoc.capture.events.cut_records import frames_of_place
from graphdoc.capture.events.engine_calls import Call, EngineCalls, Glimpse, came_through, failed_call, raised_again
from graphdoc.capture.events.journal import DEPTH
from graphdoc.capture.graph.autopsy import Autopsy
from graphdoc.capture.graph.roots import roots_of_call
from graphdoc.capture.graph.walk import DEEP, nodes_behind
from graphdoc.capture.places import stacks
from graphdoc.capture.places.code_places import function_of, is_user_file, line_of, lines_of, shown_file
from graphdoc.capture.places.frames import frames_of, plain
from graphdoc.capture.process.ours import chain_of, is_ours, text_of
from graphdoc.capture.process.quiet import Unseen
from graphdoc.capture.tensors.access_paths import text_of as path_text
from graphdoc.capture.tensors.facts import frames_of_traceback, grad_fn_of, is_leaf, shape_of, user_frames
from graphdoc.capture.written_evidence import start_document, write_document
from graphdoc.evidence import Evidence, Frame, Raised

if TYPE_CHECKING:
    from graphdoc.capture.witness import Witness


# The places that an error out of TorchScript tells in its own text: no frame of Python stands for what it runs.

_HEAD = "Traceback of TorchScript"
_PLACE = re.compile(r'  File "(.+)", line (\d+), in (.+)')
_HERE = "<--- HERE"


def scripted_frames(message: str, cwd: str) -> list[Frame]:
    """The frames inside the interpreter of TorchScript, outermost first; empty where the error came from elsewhere.

    Of a module that was saved and loaded the text tells its serialised code first, and that of the user's files last.
    """
    lines = message.rpartition(_HEAD)[2].splitlines() if _HEAD in message else []
    out: list[Frame] = []
    for number, text in enumerate(lines):
        found = _PLACE.match(text)
        if found is None or not os.path.isfile(found[1]):
            continue
        block = lines[number + 1 :]
        end = next((i for i, later in enumerate(block) if _PLACE.match(later)), len(block))
        line = int(found[2])
        column, end_line, end_column = _columns(found[1], line, block[:end])
        name, user = shown_file(found[1], cwd), is_user_file(found[1])
        out.append(Frame(name, line, column, end_line, end_column, found[3], user))
    return out


def _columns(path: str, line: int, block: list[str]) -> tuple[int, int, int]:
    """First column, end line and end column of what the text underlines, as the file has it; columns 0 where the two
    do not fit together."""
    at = next((i for i, text in enumerate(block) if text.rstrip().endswith(_HERE)), 0)
    shown, real = block[at - 1] if at else "", line_of(path, line).rstrip("\n")
    if not at or shown.strip() != real.strip() or not real.isascii():
        return 0, line, 0
    shift = len(real) - len(real.lstrip()) - len(shown) + len(shown.lstrip())
    first = block[at].index("~") if "~" in block[at] else -1
    last = block[at].rindex("~")
    return _whole(path, line, first + shift, last + 1 + shift) if first >= 0 else (0, line, 0)


def _whole(path: str, line: int, first: int, last: int) -> tuple[int, int, int]:
    """Of a call TorchScript underlines what is called; told is the call."""
    try:
        tree = ast.parse("".join(lines_of(path)))
    except (SyntaxError, ValueError):
        return first + 1, line, last + 1
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and node.lineno == line and node.col_offset == first:
            f = node.func
            if (f.end_lineno, f.end_col_offset) == (line, last) and node.end_lineno and node.end_col_offset:
                return first + 1, node.end_lineno, node.end_col_offset + 1
    return first + 1, line, last + 1


# The input whose gradient was asked for and that no way leads to: when it was made, and of what.

SAID = "appears to not have been used in the graph"


def fill(evidence: Evidence, autopsy: Autopsy, inputs: Sequence[Any]) -> None:
    """Tell of the first of the inputs of a ``grad`` call that the graph of the autopsy does not lead to: the ``stack``
    of what made it, and whether that ``shares`` anything with the graph. Nothing where that was looked at in part."""
    if len(autopsy.order) >= autopsy.limit:
        return
    found = {id(f.leaf) if f.leaf is not None else f.node for f in autopsy.order}
    autopsy.missed = next((t for t in inputs if hasattr(t, "grad_fn") and (grad_fn_of(t) or id(t)) not in found), None)
    if autopsy.missed is not None:
        node = grad_fn_of(autopsy.missed)
        behind = (n for n, _ in islice(nodes_behind([node]), DEEP - 1))
        evidence.extras["unreached"] = {
            "stack": plain(frames_of(autopsy.raw_stack(node), autopsy.cwd)) if node is not None else [],
            "shares": any(n in found or id(getattr(n, "variable", None)) in found for n in behind),
        }


# The failures of a run: each kind is examined once, when it is raised; the one that ends the program in any case.

MOST_ASKED = 64
"""Inputs of a call of autograd.grad whose names are told."""
MOST_KINDS = 25
"""Kinds of failure, by place and words, of which one each is examined before it is known whether the program ends by
it: it may be killed first, or wait for ever for other ranks."""


class Failures:
    """What has been told of the failures so far. ``evidence`` is the last that was written, ``last`` the journal's
    index of the call that failed last (-1 for none)."""

    def __init__(self, witness: Witness, calls: EngineCalls) -> None:
        self._witness = witness
        self._calls = calls
        self._whole = True
        self.forget()

    def forget(self) -> None:
        """What failed so far has been told."""
        self.evidence: Evidence | None = None
        self._told = self.last = -1
        self._kinds: set[tuple[Any, ...]] = set()

    def is_told(self, error: BaseException) -> bool:
        """Whether this exception, or one behind it, is one that was examined or can be."""
        calls = self._calls
        return any(
            is_ours(e) and failed_call(e.__traceback__, calls.code, calls.token) is not None for e in chain_of(error)
        )

    def is_first(self, call: Call, error: BaseException) -> bool:
        """Whether nothing like this has been examined: the same calls, the same beginning of the message."""
        seen = call[0][3][:-1][: 2 * DEPTH]
        kind = (type(error), text_of(error)[:40], *map(id, seen[::2]), *seen[1::2])
        if kind in self._kinds or len(self._kinds) >= MOST_KINDS:
            return False
        self._kinds.add(kind)
        return True

    def examine(self, call: Call, error: BaseException, frame: FrameType, ending: bool) -> None:
        """Look at the graph of a call that has failed and write down what was seen. ``frame`` made the call.

        While it is not known whether the program ends by it, a very large graph is looked at in part only.
        """
        noted, outputs, args, glimpse = call
        witness = self._witness
        with Unseen(witness.torch, witness.anomaly, frame):
            evidence, _ = self.begin(error, stacks.stack_of_seen(noted[3]))
            wrote = next((p for p in witness.probes if hasattr(p, "writes_to")), None)  # it has seen who wrote
            frames, events = user_frames(frame), glimpse.count
            autopsy = Autopsy(witness, frames, wrote, events, noted[6])
            if not ending:
                autopsy.limit = DEEP - 1
            autopsy.fill_program(evidence)
            entry = witness.journal.entry_of(noted, autopsy.entries, failed=True)
            roots = roots_of_call(outputs)
            autopsy.fill_graph(evidence, roots, glimpse.failing, glimpse.name, entry)
            # Another thread's nodes are numbered from 0 as well; what was made since the look began has its stack.
            early = any(autopsy.order.sequences[n] < witness.began for n in autopsy.made.unknown)
            if autopsy.thread == witness.thread and early:
                evidence.degraded.append("part of this graph was made before it was observed: where is not known")
            self.fill_extras(evidence, autopsy, glimpse)
            inputs = args[3] if len(args) > 3 else None
            evidence.extras["inputs"] = len(inputs) if inputs is not None else 0
            known = autopsy.census.parameter_names
            evidence.extras["asked"] = [known.get(id(t), "") for t in (inputs or ())[:MOST_ASKED]]
            if inputs and SAID in evidence.message:
                fill(evidence, autopsy, inputs)
            witness.fill(evidence, autopsy, roots, outputs)
            if "returned nan" in evidence.message:
                witness.finite.tell_failed(evidence, noted[0])
            self.evidence = evidence
            self._told, self._whole = noted[0], len(autopsy.order) < autopsy.limit
            write_document(witness, evidence, ending)

    def examine_ending(self, chain: list[BaseException]) -> bool:
        """Whether the exception that ends the program, or one behind it, came out of the engine and is told now."""
        for e in chain:
            found = failed_call(e.__traceback__, self._calls.code, self._calls.token) if is_ours(e) else None
            if found is not None:
                call, frame = found
                if self._told != call[0][0] or not self._whole:
                    self.examine(call, e, frame, True)
                return True
        raised = self.evidence.raised if self.evidence is not None and self._told == self.last else None
        # Who raises it again without its traceback, or clears its frames, means the last failure that there was.
        same = [e for e in chain if raised and (raised.type, raised.message) == (_type_name(e), text_of(e))]
        return any(raised_again(e.__traceback__) or came_through(e.__traceback__, self._calls.code) for e in same)

    def examine_uncaught(self, error: BaseException, chain: list[BaseException]) -> None:
        """An exception that did not come out of the engine: its traceback still holds the frames."""
        witness = self._witness
        with Unseen(witness.torch, witness.anomaly, None):
            innermost = chain[-1]
            evidence, raised = self.begin(error, stacks.stack_of_traceback(error.__traceback__))
            raised.stack += scripted_frames(raised.message, witness.cwd)
            raised.causes = [f"{type(e).__name__}: {text_of(e)}"[:500] for e in chain[1:]]
            frames = frames_of_traceback(innermost.__traceback__)
            autopsy = Autopsy(witness, frames)
            autopsy.fill_program(evidence)
            self.fill_extras(evidence, autopsy, Glimpse(witness))
            evidence.extras["parameters_within"] = parameters_within(autopsy, frames[0]) if frames else {}
            if frames and "requires_grad flags" in evidence.message:
                evidence.extras["behind_results"] = behind_results(autopsy, frames[0])
            evidence.extras["wrapped"] = wrapped(autopsy)
            witness.fill(evidence, autopsy, [], [])
            witness.frames = frames
            witness.tell_audits(evidence)
            witness.frames = []
            write_document(witness, evidence)

    def fill_extras(self, evidence: Evidence, autopsy: Autopsy, glimpse: Glimpse) -> None:
        """The tensors near the failure, and the switches of recording as they stood."""
        copied = evidence.raised is not None and "deepcopy" in evidence.raised.message
        evidence.extras["locals"] = locals_of(autopsy, copied)
        evidence.extras["switches"] = {
            kind: [vars(f) for f in frames_of_place(at, self._witness.cwd)] for kind, at in glimpse.switches.items()
        }
        evidence.extras["grad_enabled"] = glimpse.recording

    def begin(self, error: BaseException, raw: Any) -> tuple[Evidence, Raised]:
        """A document about this exception and where it was raised, with nothing of the graph in it yet."""
        evidence = start_document(self._witness)
        compiled = getattr(sys.modules.get("torch._dynamo.utils"), "counters", None)
        if compiled and compiled["frames"]:
            evidence.degraded.append("inside what torch.compile has compiled, operations were not seen one by one")
            evidence.extras["compiled"] = True
        evidence.raised = raised = Raised(_type_name(error), text_of(error), frames_of(raw, evidence.process.cwd))
        return evidence, raised


def _type_name(error: BaseException) -> str:
    cls = type(error)
    return cls.__qualname__ if cls.__module__ in ("builtins", "__main__") else f"{cls.__module__}.{cls.__qualname__}"


# The tensors near the surface of the live frames, with how each was made: facts for causes without a graph.

MOST = 200
"""Tensors that are told."""


def locals_of(seen: Autopsy, results: bool = False) -> list[dict[str, Any]]:
    """With ``results`` those that an operation has made are told wherever the search has found them."""
    out: list[dict[str, Any]] = []
    for ident, paths in seen.census.tensor_paths.items():
        tensor = seen.census.tensors[ident]
        _, path = min(paths, key=lambda p: len(p[1]))
        node = grad_fn_of(tensor)
        # A forward can put a result where a module keeps a buffer: it goes by that name and is none.
        if (len(path) > 4 or ident in seen.census.parameter_names) and not (results and node is not None):
            continue
        made: list[Frame] = frames_of(seen.raw_stack(node), seen.cwd) if node is not None else []
        holder = seen.census.holders(ident, True, seen.cwd)[0]
        out.append(
            {
                "path": holder.path,
                "function": holder.function,
                "shape": shape_of(tensor),
                "type": type(tensor).__name__,
                "dtype": str(tensor.dtype),
                "requires_grad": bool(tensor.requires_grad),
                "is_leaf": is_leaf(tensor),
                "op": str(node.name()) if node is not None else "",
                "made": [vars(f) for f in made if f.user][-3:],
                "inference": bool(tensor.is_inference()),
                "grad": "none" if not is_leaf(tensor) or tensor.grad is None else "present",
            }
        )
        if len(out) >= MOST:
            break
    return out


def parameters_within(seen: Autopsy, frame: FrameType) -> dict[str, str]:
    """The parameters that a frame reaches, by how it reaches them: ``p`` in a loop is ``net.fc.weight``."""
    names = seen.census.parameter_names
    return {path: names[id(t)] for path, t in _within(seen, frame) if id(t) in names}


def behind_results(seen: Autopsy, frame: FrameType) -> dict[str, list[str]]:
    """The parameters that the graph of each result leads to which a frame reaches."""
    names, out = seen.census.parameter_names, dict[str, list[str]]()
    for path, tensor in islice(_within(seen, frame), MOST):
        node = grad_fn_of(tensor)
        behind = islice(nodes_behind([node]), DEEP) if node is not None else ()
        leaves = [id(getattr(n, "variable", None)) for n, _ in behind]
        out[path] = [names[leaf] for leaf in leaves if leaf in names][:MOST]
    return out


def _within(seen: Autopsy, frame: FrameType) -> Iterator[tuple[str, Any]]:
    """The tensors that a frame reaches, by how it reaches them; ``fast[key]`` too, where the key has a name.

    Its own names are told whatever else holds them: of each tensor the search keeps a few ways alone. So are those of
    its module that it reads.
    """
    here, tensor = (function_of(frame.f_code), frame.f_code.co_filename), seen.torch.Tensor
    named = set(frame.f_code.co_names) - frame.f_locals.keys()
    own = {name: value for name, value in frame.f_globals.items() if name in named} | frame.f_locals
    yield from ((local, value) for local, value in own.items() if isinstance(value, tensor))
    keys = {local: value for local, value in own.items() if type(value) in (str, int)}
    for local, value in own.items():
        if type(value) is dict:
            yield from ((f"{local}[{k}]", value[v]) for k, v in keys.items() if isinstance(value.get(v), tensor))
    ways = ((ident, w) for ident, ways in seen.census.tensor_paths.items() for w in ways)
    for ident, (root, path) in ways:
        at, outside = (root.function, root.file), ("<module>", here[1])
        if at == here or (at == outside and path[0].key in named):
            yield path_text(path), seen.census.tensors[ident]


def wrapped(seen: Autopsy) -> list[list[str]]:
    """For each DistributedDataParallel the parameters that its Reducer counts, in its order: those that required
    gradients when it was made. None where it is not known which these were."""
    kind, names = seen.torch.nn.parallel.DistributedDataParallel, seen.census.parameter_names
    out = []
    for module, _, _ in seen.census.modules.values():
        if isinstance(module, kind):
            every = list(getattr(module, "_module_parameters", ()))
            counted = module._get_ddp_logging_data().get("num_parameter_tensors")
            same = (those for those in ([p for p in every if p.requires_grad], every) if len(those) == counted)
            out.append([names.get(id(p), "") for p in next(same, [])])
    return out
