"""Messages in the shapes in which people paste them."""

from __future__ import annotations

import textwrap

import pytest
from logs import SECOND, VERSION

from graphdoc.messages import recognise, recognise_exception


def only(text: str) -> str:
    (match,) = recognise(text)
    return match.id


def test_the_fields_of_a_version_error() -> None:
    (match,) = recognise(VERSION)
    assert match.family == "graph-reuse" and match.group == "inplace"
    assert match.fields == {
        "dtype": "torch.FloatTensor",
        "shape": "[32, 1]",
        "output_index": "0",
        "op": "AsStridedBackward0",
        "version": "20",
        "expected": "19",
    }
    assert match.causes[0] == "optimizer-step-before-backward"


def test_a_version_error_of_a_leaf_names_no_operation() -> None:
    (match,) = recognise(VERSION.replace(", which is output 0 of AsStridedBackward0,", ""))
    assert "op" not in match.fields and match.fields["version"] == "20"


@pytest.mark.parametrize(
    "text",
    [
        textwrap.fill(SECOND, 60),
        textwrap.fill(SECOND, 60, initial_indent="> ", subsequent_indent="> "),
        textwrap.fill(SECOND, 60, subsequent_indent="        "),
        "\n".join(SECOND[i : i + 40] for i in range(0, len(SECOND), 40)),
        SECOND.replace(" ", "\t"),
        SECOND.replace(" ", "\n"),
        SECOND.replace("graph", "\x1b[1;31mgraph\x1b[0m"),
        SECOND.replace("graph", "gr\x00aph"),
        f"prose before. RuntimeError: {SECOND} and prose after",
        "RuntimeError: " + SECOND[:70],
    ],
)
def test_wrapping_quoting_and_colours_make_no_difference(text: str) -> None:
    assert only(text) == "backward-second-time"


@pytest.mark.parametrize(
    ("text", "ident", "group"),
    [
        (
            "Trying to backward through the graph a second time, but the buffers have already been freed. Specify "
            "retain_graph=True when calling backward the first time.",
            "backward-second-time",
            "second-backward",
        ),
        (
            "Trying to backward through the graph a second time, but the saved intermediate results have already been "
            "freed. Specify retain_graph=True when calling .backward() or autograd.grad() the first time.",
            "backward-second-time",
            "second-backward",
        ),
        (
            "one of the variables needed for gradient computation has been modified by an inplace operation",
            "inplace-version-mismatch",
            "inplace",
        ),
        ("calling backward on a volatile variable", "legacy-volatile-backward", "no-grad"),
        ("element 0 of variables tuple is volatile", "legacy-volatile", "no-grad"),
        ("there are no graph nodes that require computing gradients", "legacy-no-graph-nodes", "no-grad"),
        ("element 0 of variables does not require grad and does not have a grad_fn", "no-grad-fn", "no-grad"),
        (
            "One of the differentiated Tensors appears to not have been used in the graph.",
            "grad-input-unused",
            "higher-order",
        ),
        (
            "derivative for aten::_scaled_dot_product_flash_attention_for_cpu_backward is not implemented",
            "derivative-for-aten-op",
            "higher-order",
        ),
        ("the derivative for '_trilinear_backward' is not implemented.", "derivative-not-implemented", "higher-order"),
        (
            "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.",
            "numpy-requires-grad",
            "misuse",
        ),
        (
            "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the moment",
            "deepcopy-non-leaf",
            "misuse",
        ),
        (
            "a view of a leaf Variable that requires grad is being used in an in-place operation.",
            "leaf-view-inplace",
            "inplace",
        ),
        ("Function 'LogBackward0' returned nan values in its 0th output.", "nan-gradient", "nonfinite"),
        (
            "torch.compile with aot_autograd does not currently support double backward",
            "aot-double-backward",
            "compile",
        ),
        (
            "function ScaleBackward returned an incorrect number of gradients (expected 2, got 1)",
            "function-gradient-count",
            "misuse",
        ),
    ],
)
def test_old_and_new_wordings(text: str, ident: str, group: str) -> None:
    match = recognise_exception("RuntimeError", text)
    assert match is not None and (match.id, match.group) == (ident, group)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hello world",
        "'NoneType' object has no attribute 'split'",
        "f() takes 1 positional argument but 2 were given",
        "CUDA out of memory. Tried to allocate 2.00 GiB",
        "epoch 3 loss=0.2 grad_norm=1.3",
        "The size of tensor a (3) must match the size of tensor b (4) at non-singleton dimension 0",
        "backward through the graph",
    ],
)
def test_other_text_is_left_alone(text: str) -> None:
    assert recognise(text) == []
    assert recognise_exception("RuntimeError", text) is None


def test_places_are_those_of_the_text_as_given() -> None:
    text = "a\r\n\x1b[31mb\x1b[0m   RuntimeError:   " + SECOND.replace(" ", "  ") + "\nzebra"
    (match,) = recognise(text)
    assert text[match.start : match.end].startswith("Trying  to  backward")
    assert "zebra" not in text[match.start : match.end]


def test_several_messages_stand_in_their_order_and_the_limit_holds() -> None:
    text = f"{VERSION}\n\n{SECOND}\n\ngrad can be implicitly created only for scalar outputs\n"
    groups = [m.group for m in recognise(text)]
    assert groups == ["inplace", "second-backward", "misuse"]
    assert len(recognise(text * 30, limit=5)) == 5


def test_an_open_ended_field_ends_with_its_line() -> None:
    (match,) = recognise("gradients can be either Tensors or None, but got float\nnext line of the log")
    assert match.fields == {"type": "float"}


def test_fields_hold_nothing_that_a_terminal_obeys() -> None:
    (match,) = recognise("gradients can be either Tensors or None, but got fl\x1b[31moat\x07\u202e")
    assert match.fields == {"type": "float"}


def test_the_parameters_of_a_distributed_error_belong_to_its_first_sentence() -> None:
    match = recognise_exception(
        "RuntimeError",
        "Expected to have finished reduction in the prior iteration before starting a new one. This error indicates\n"
        "Parameters which did not receive grad for rank 0: head.weight, head.bias\nIn addition",
    )
    assert match is not None and match.id == "ddp-unused-parameters"
    assert match.fields["names"] == "head.weight, head.bias"
    assert match.causes == ("ddp-unused-parameters",)


@pytest.mark.parametrize(
    ("text", "entry"),
    [
        # Titles end without a full stop.
        ("a leaf Variable that requires grad is being used in an in-place operation", "leaf-inplace"),
        # A release may reword the advice behind the first sentence.
        (
            "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Ask somebody.",
            "nonleaf-grad",
        ),
    ],
)
def test_the_first_sentence_alone_is_recognised_as_a_beginning(text: str, entry: str) -> None:
    (match,) = recognise(text)
    assert entry in (match.id, *match.also)
    assert match.partial


def test_a_short_first_sentence_is_nobodys() -> None:
    """What other programs say as well is not enough."""
    assert recognise("hook must be a callable") == []
