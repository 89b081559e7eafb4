"""From a failure in a log to Evidence: only what the text proves."""

from __future__ import annotations

import io

from logs import TODAY, prefixed, traceback

from graphdoc.evidence import Evidence
from graphdoc.messages import evidence_from, read_log


def evidence(text: str) -> Evidence:
    (failure,) = read_log(io.BytesIO(text.encode()))
    return evidence_from(failure)


def test_a_version_error_with_its_forward_trace() -> None:
    e = evidence(prefixed(TODAY + traceback(), "[rank2]: "))
    assert e.from_text and e.capture == "none" and e.process.rank == 2
    assert e.raised is not None and e.raised.type == "RuntimeError"
    assert [f.line for f in e.raised.stack if f.user] == [90, 61]
    (stale,) = e.stale
    assert (stale.current, stale.expected) == (20, 19)
    assert (stale.tensor.shape, stale.tensor.dtype, stale.tensor.is_leaf) == ([32, 1], "torch.float32", False)
    failing, producer = e.node(stale.node), e.node(stale.producer)
    assert failing is not None and (failing.op, failing.state) == ("AddmmBackward0", "stale")
    assert [f.line for f in failing.stack] == [90, 40]
    assert producer is not None and producer.op == "AsStridedBackward0"
    assert e.failing == failing.id


def test_a_leaf_has_no_producer() -> None:
    e = evidence(traceback().replace(", which is output 0 of AsStridedBackward0,", ""))
    (stale,) = e.stale
    assert stale.tensor.is_leaf and stale.producer == -1 and e.nodes == []


def test_the_call_that_failed_is_in_the_journal() -> None:
    e = evidence(traceback())
    (event,) = e.events
    assert event.kind == "backward" and event.failed and e.failing_event == event.index
    assert [f.line for f in event.stack] == [90, 61]


def test_nan_from_anomaly_mode_names_the_node() -> None:
    e = evidence(traceback("Function 'LogBackward0' returned nan values in its 0th output."))
    assert e.nodes[0].op == "LogBackward0" and e.failing == 0 and not e.stale


def test_a_message_alone_proves_nothing_about_the_graph() -> None:
    e = evidence("RuntimeError: grad can be implicitly created only for scalar outputs\n")
    assert not (e.nodes or e.stale or e.events or e.older_edges or e.cuts)


def test_it_is_an_evidence_document_like_any_other() -> None:
    e = evidence(TODAY + traceback())
    assert Evidence.from_json(e.to_json()).to_json() == e.to_json()
