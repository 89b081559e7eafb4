"""What words alone allow to say: the fields of a version error, and which neighbour comes first."""

from __future__ import annotations

import pytest

from graphdoc.causes import all_causes
from graphdoc.evidence import Evidence, Frame, Raised, Stale, Tensor
from graphdoc.program.exception import SECOND_TIME, VERSION, message_of
from graphdoc.program.observed import program_of
from graphdoc.program.spans import in_whole_lines
from graphdoc.story.message_alone import Mismatch, likelihood, mismatch

TWICE = (
    "Trying to backward through the graph a second time (or directly access saved tensors after they have already "
    "been freed). Saved intermediate values of the graph are freed when you call .backward() or autograd.grad(). "
    "Specify retain_graph=True if you need to backward through the graph a second time or if you need to access "
    "saved tensors after calling backward."
)


def evidence(message: str, **fields) -> Evidence:
    return Evidence(raised=Raised("RuntimeError", message), from_text=True, **fields)


def stale(tensor: str, versions: str = "2; expected version 1") -> Evidence:
    return evidence(
        "one of the variables needed for gradient computation has been modified by an inplace operation: "
        f"[{tensor} is at version {versions} instead. Hint: the backtrace further above shows the operation."
    )


def ranking(e: Evidence) -> list[str]:
    """The slugs of groups 1 and 2 that text allows, strongest first."""
    found = [(c.recognise(program_of(e)), c) for c in all_causes() if c.code[:3] in ("GD1", "GD2")]
    return [c.slug for f, c in sorted(((f, c) for f, c in found if f), key=lambda p: -p[0].strength)]


def test_second_time_has_every_cause_of_its_group_in_order() -> None:
    assert ranking(evidence(TWICE)) == [
        "carried-state",
        "stored-with-graph",
        "undetached-target",
        "shared-subgraph-losses",
        "graph-built-once",
        "accumulated-loss",
        "repeated-backward",
    ]


@pytest.mark.parametrize(
    ("tensor", "first"),
    [
        ("torch.FloatTensor [64, 1]], which is output 0 of AsStrided,", "optimizer-step-before-backward"),
        ("torch.cuda.FloatTensor [64, 1]], which is output 0 of TBackward,", "optimizer-step-before-backward"),
        ("torch.FloatTensor [2, 4, 3, 3]]", "optimizer-step-before-backward"),
        ("torch.LongTensor [3, 1]]", "buffer-updated-in-place"),
        ("CPUBoolType [3]]", "buffer-updated-in-place"),
        ("torch.FloatTensor [3]], which is output 0 of AsStridedBackward0,", "state-overwritten-in-place"),
        ("torch.FloatTensor [4, 3]], which is output 0 of torch::autograd::CopySlices,", "state-overwritten-in-place"),
        ("torch.FloatTensor [5, 4]], which is output 0 of Sigmoid,", "inplace-on-saved-activation"),
        ("torch.cuda.HalfTensor [8, 64, 7, 7]], which is output 0 of ReluBackward0,", "inplace-on-saved-activation"),
        ("torch.FloatTensor []], which is output 0 of ExpBackward,", "inplace-on-saved-activation"),
    ],
)
def test_version_error_is_ordered_by_what_the_tensor_is(tensor: str, first: str) -> None:
    assert ranking(stale(tensor))[0] == first


def test_the_flag_in_the_program_puts_the_cover_up_first() -> None:
    e = stale("torch.FloatTensor [64, 1]], which is output 0 of AsStrided,")
    assert "retain-graph-cover-up" in ranking(e)[1:]
    e.sources["train.py"] = "loss.backward(retain_graph=True)\n"
    assert ranking(e)[0] == "retain-graph-cover-up"


@pytest.mark.parametrize(
    ("message", "only"),
    [
        ("a leaf Variable that requires grad is being used in an in-place operation.", "inplace-on-leaf"),
        ("a view of a leaf Variable that requires grad is being used in an in-place operation.", "inplace-on-leaf"),
        ("a leaf Variable that requires grad has been used in an in-place operation.", "inplace-on-leaf"),
        (
            "Output 0 of Unbind is a view and is being modified inplace. This view is the output of a function that "
            "returns multiple views.",
            "inplace-on-view",
        ),
        ("A view was created in no_grad mode and is being modified inplace with grad mode enabled.", "inplace-on-view"),
        (
            "Output 0 of Slice is a view of a view which was created in inference mode and is being modified inplace "
            "in normal mode.",
            "inplace-on-view",
        ),
        (
            "unsupported operation: more than one element of the written-to tensor refers to a single memory location.",
            "inplace-on-view",
        ),
        ("Inference tensors cannot be saved for backward.", "inplace-on-inference-tensor"),
        (
            "Inplace update to inference tensor outside InferenceMode is not allowed.You can make a clone",
            "inplace-on-inference-tensor",
        ),
    ],
)
def test_message_that_belongs_to_one_cause(message: str, only: str) -> None:
    assert ranking(evidence(message)) == [only]


@pytest.mark.parametrize("message", ["", "mat1 and mat2 shapes cannot be multiplied (3x4 and 5x6)", "out of memory"])
def test_other_messages_are_left_alone(message: str) -> None:
    assert ranking(evidence(message)) == []
    assert ranking(Evidence()) == []


def told_by(said: Evidence) -> Mismatch | None:
    return mismatch(said.raised, said.stale)


def test_the_fields_of_a_version_error() -> None:
    found = told_by(stale("torch.DoubleTensor [8, 24]], which is output 1 of AsStrided,", "12; expected version 10"))
    assert found is not None
    assert (found.type, found.shape, found.op) == ("torch.DoubleTensor", (8, 24), "AsStrided")
    assert (found.current, found.expected, found.writes) == (12, 10, 2)
    assert found.transposed_weight and not found.leaf and not found.sliced and not found.integer


def test_wordings_without_details_are_still_a_version_error() -> None:
    found = told_by(
        evidence("one of the variables needed for gradient computation has been modified by an inplace operation")
    )
    assert found is not None
    assert found.leaf and found.writes == -1 and found.shape == ()
    assert told_by(evidence(TWICE)) is None


def test_what_the_run_found_outranks_the_words() -> None:
    e = stale("torch.FloatTensor [4, 10]]")
    e.stale.append(Stale(node=0, attribute="other", tensor=Tensor(kind="buffer"), expected=0, current=1))
    assert "optimizer-step-before-backward" not in ranking(e)
    assert ranking(e)[0] == "buffer-updated-in-place"


def test_wrapped_lines_and_chained_exceptions_are_read() -> None:
    assert message_of(evidence("Trying to backward through the\n   graph a second\ttime").raised, *SECOND_TIME)
    wrapped = Evidence(raised=Raised("MisconfigurationException", "training failed", causes=[TWICE]))
    assert ranking(wrapped)[0] == "carried-state"


def test_the_place_is_the_innermost_line_of_the_users_own_code() -> None:
    e = evidence(TWICE)
    assert e.raised is not None
    e.raised.stack = [
        Frame("train.py", 3, function="main"),
        Frame("train.py", 7, function="update"),
        Frame("torch/_tensor.py", 600, function="backward", user=False),
    ]
    e.sources["train.py"] = "\n" * 6 + "    loss.backward()\n"
    found = next(c for c in all_causes() if c.slug == "carried-state").recognise(program_of(e))
    assert found is not None
    (span,) = in_whole_lines(e.sources, found.spans)
    assert (span.role, span.line, span.column, span.end_column) == ("failed", 7, 5, 20)


TENSORS = ("", "torch.FloatTensor [3]]", "torch.LongTensor [3]]", "torch.FloatTensor [3]], which is output 0 of Exp,")


@pytest.mark.parametrize("text", TENSORS)
def test_strength_of_one_half_is_kept_for_graphs(text: str) -> None:
    e = stale(text) if text else evidence(TWICE)
    known = [likelihood(program_of(e), c.slug, *SECOND_TIME, *VERSION) for c in all_causes()]
    assert 0 < max(known) < 0.5


def test_hostile_text_comes_to_an_end() -> None:
    # A pattern that goes back over its text would take days for these.
    for text in ("inplace operation: [" * 200_000, "inplace operation: [" + "[" * 10**6, "a leaf " * 10**6):
        ranking(evidence(text + " has been modified by an inplace operation"))
    assert message_of(evidence("x" * 10**7).raised, *VERSION) is None
