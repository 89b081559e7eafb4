"""From a failure in a log to Evidence: what text alone allows to say, in the form that the causes read."""

from __future__ import annotations

import re

from graphdoc.evidence import Event, Evidence, Frame, Node, Process, Raised, Stale, Tensor
from graphdoc.messages.log import Failure

_DTYPES = {
    "FloatTensor": "torch.float32",
    "DoubleTensor": "torch.float64",
    "HalfTensor": "torch.float16",
    "BFloat16Tensor": "torch.bfloat16",
    "LongTensor": "torch.int64",
    "IntTensor": "torch.int32",
    "ShortTensor": "torch.int16",
    "CharTensor": "torch.int8",
    "ByteTensor": "torch.uint8",
    "BoolTensor": "torch.bool",
    "ComplexFloatTensor": "torch.complex64",
    "ComplexDoubleTensor": "torch.complex128",
}
_NUMBER = re.compile(r"\d{1,12}")
_STATES = {"second-backward": "released", "inplace": "stale"}

FAILING, PRODUCER = 0, 1
"""The ids of the two nodes that a message can name: the one that failed, and the one that made the stale tensor."""


def evidence_from(failure: Failure) -> Evidence:
    """What a failure in a log proves, as an Evidence with ``from_text`` set.

    ``raised`` holds the exception and its traceback, ``events`` the backward or grad call that the traceback shows,
    ``nodes`` the node that anomaly mode names with its forward trace, ``stale`` the tensor of a version error.
    """
    match = failure.match
    evidence = Evidence(
        process=Process(rank=failure.rank, world_size=max(1, len(failure.ranks))),
        capture="none",
        raised=Raised(failure.type, failure.message, list(failure.frames), causes=list(failure.chain)),
        warnings=list(failure.warnings),
        from_text=True,
    )
    evidence.degraded.append("read from text: nothing of the graph or of the run itself was observed")
    if failure.truncated:
        evidence.degraded.append("the log breaks off before the message of this exception")
    event = _call(failure.frames)
    if event is not None:
        evidence.events.append(event)
        evidence.failing_event = event.index
    fields = match.fields if match else {}
    name = failure.forward_op or (fields.get("fn", "") if match and match.id == "nan-gradient" else "")
    if name or failure.forward:
        state = _STATES.get(match.group, "live") if match else "live"
        evidence.nodes.append(Node(FAILING, name, stack=list(failure.forward), state=state))
        evidence.failing = FAILING
    if match is not None and "expected" in fields and "version" in fields and match.group == "inplace":
        evidence.stale.append(_stale(fields, evidence.failing, evidence.nodes))
    return evidence


def _stale(fields: dict[str, str], failing: int, nodes: list[Node]) -> Stale:
    op = fields.get("op", "")
    current, expected = _number(fields["version"]), _number(fields["expected"])
    tensor = Tensor(
        # PyTorch leaves "which is output N of X" out for leaves: a parameter, a buffer or plain data.
        kind="unknown",
        shape=[_number(n) for n in _NUMBER.findall(fields.get("shape", ""))],
        dtype=_DTYPES.get(fields.get("dtype", "").rpartition(".")[2], ""),
        version=current,
        is_leaf=not op,
    )
    if op:
        nodes.append(Node(PRODUCER, op, shape=list(tensor.shape)))
    node = FAILING if failing == FAILING else -1
    return Stale(node, "", tensor, expected, current, producer=PRODUCER if op else -1)


def _number(text: str) -> int:
    found = _NUMBER.search(text)
    return int(found.group()) if found else -1


def _call(frames: list[Frame]) -> Event | None:
    """The backward or grad call in a traceback: the user's frame above torch's own function of that name."""
    for index, frame in enumerate(frames):
        if frame.user or index == 0:
            continue
        file = frame.file.replace("\\", "/")
        if file.endswith(("torch/_tensor.py", "torch/tensor.py", "torch/autograd/__init__.py", "autograd/variable.py")):
            kind = {"backward": "backward", "grad": "grad"}.get(frame.function)
            if kind is not None:
                return Event(0, kind, stack=list(frames[:index]), failed=True)
    return None
