"""Logs as CI keeps them: every decoration that launchers add, ranks that interleave, ends that are missing."""

from __future__ import annotations

import io
import textwrap
import tracemalloc
from pathlib import Path

import pytest
from logs import CPP, FIRST, INDUCED, SECOND, TODAY, VERSION, prefixed, traceback

from graphdoc.cli.logs import tell
from graphdoc.messages import Failure, read_log


def failures(text: str | bytes) -> list[Failure]:
    return read_log(io.BytesIO(text if isinstance(text, bytes) else text.encode()))


def wrapped(text: str, width: int) -> str:
    """As copied from a terminal of that width."""
    return "\n".join(line[i : i + width] for line in text.split("\n") for i in range(0, max(1, len(line)), width))


def only(text: str | bytes) -> Failure:
    (failure,) = failures(text)
    return failure


def assert_version_error(failure: Failure) -> None:
    assert failure.type == "RuntimeError"
    assert failure.match is not None and failure.match.fields["version"] == "20"
    assert failure.place is not None
    assert (failure.place.file, failure.place.line) == ("/home/runner/work/demo/train.py", 61)
    assert failure.place.function == "step"


def test_a_plain_traceback() -> None:
    failure = only("epoch 1\n" + traceback() + "done\n")
    assert_version_error(failure)
    assert failure.message == VERSION
    assert [f.user for f in failure.frames] == [True, True, False, False]
    assert failure.code[("/home/runner/work/demo/train.py", 61)] == "loss.backward()"
    assert failure.line == 2 and failure.rank == -1 and failure.ranks == []


@pytest.mark.parametrize(
    ("prefix", "rank", "labels"),
    [
        ("2024-01-01T00:00:00.1234567Z ", -1, []),
        ("\ufeff", -1, []),
        ("build\tRun tests\t2024-01-01T00:00:00.1234567Z ", -1, []),
        ("[2024-01-01 00:00:00,123] ", -1, []),
        ("[rank3]: ", 3, ["rank 3"]),
        ("[rank3]:[2024-01-01 00:00:00] ", 3, ["rank 3"]),
        ("[default1]:", 1, ["rank 1"]),
        ("[1,2]<stderr>: ", 2, ["rank 2"]),
        ("7: ", 7, ["rank 7"]),
        ("[0]: ", 0, ["rank 0"]),
        ("trainer-1  | ", -1, ["trainer-1"]),
        ("2024-01-01T00:00:00.1234567Z trainer-1  | [rank2]: ", 2, ["trainer-1 rank 2"]),
        ("(RayTrainWorker pid=4711, ip=10.0.0.1) ", -1, ["RayTrainWorker pid=4711, ip=10.0.0.1"]),
        ("[pod/train-0/main] ", -1, ["pod/train-0/main"]),
        ("> ", -1, []),
        ("\x1b[31m", -1, []),
        ("[31m", -1, []),
        ("##[error]", -1, []),
    ],
)
def test_what_stands_in_front_of_each_line(prefix: str, rank: int, labels: list[str]) -> None:
    failure = only(prefixed("starting\n" + traceback() + "bye\n", prefix))
    assert_version_error(failure)
    assert failure.rank == rank
    assert failure.labels == labels


def test_ranks_that_interleave_line_by_line_are_one_failure() -> None:
    lines = [traceback().splitlines() for _ in range(4)]
    mixed = "\n".join(
        f"[rank{rank}]: {line}" for together in zip(*lines, strict=True) for rank, line in enumerate(together)
    )
    failure = only(mixed)
    assert_version_error(failure)
    assert failure.ranks == [0, 1, 2, 3]
    assert len(failure.frames) == 4


def test_thousands_of_ranks_are_all_counted_once_and_told_by_their_ends() -> None:
    ranks = range(2_999, -1, -1)
    text = "".join(f"[rank{rank}]: {line}\n" for line in traceback().splitlines() for rank in ranks)
    failure = only(text + prefixed(traceback(), "[rank7]: "))
    assert failure.ranks == sorted(ranks) and len(failure.labels) == 3_000 and failure.count == 2
    assert any("The same on ranks 0-2999." in one.report.notes for one in tell([failure], Path("/nowhere")))


def test_ranks_with_different_failures_stay_apart() -> None:
    first = prefixed(traceback(), "[rank0]: ").splitlines()
    second = prefixed(traceback(SECOND, 70), "[rank1]: ").splitlines()
    found = failures("\n".join(line for pair in zip(first, second, strict=True) for line in pair))
    assert [(f.rank, f.match.group if f.match else "", f.place.line if f.place else 0) for f in found] == [
        (0, "inplace", 61),
        (1, "second-backward", 70),
    ]


def test_progress_bars_between_the_lines() -> None:
    bar = "\r 12%|█▏        | 12/100 [00:01<00:07, 11.9it/s, loss=0.3]"
    lines = traceback().splitlines()
    text = (
        bar * 50
        + "\n"
        + lines[0]
        + "\n"
        + bar
        + "\n"
        + "\n".join(lines[1:-1])
        + bar
        + "\n"
        + lines[-1]
        + "\n"
        + bar * 9
    )
    assert_version_error(only(text))


@pytest.mark.parametrize(
    ("trace", "op"), [(TODAY, "AddmmBackward0"), (CPP, "AddmmBackward0"), (FIRST, ""), (INDUCED, "AddmmBackward0")]
)
def test_the_forward_trace_of_anomaly_mode_in_all_its_shapes(trace: str, op: str) -> None:
    failure = only("start\n" + trace + traceback())
    assert_version_error(failure)
    assert failure.forward_op == op
    assert [f.line for f in failure.forward] == [90, 40]
    assert failure.code[("/home/runner/work/demo/train.py", 40)] == "return self.head(features)"
    assert failure.warnings


def test_a_forward_trace_belongs_to_its_own_rank() -> None:
    text = prefixed(TODAY, "[rank1]: ") + prefixed(traceback(), "[rank0]: ") + prefixed(traceback(line=62), "[rank1]: ")
    found = failures(text)
    assert [(f.rank, len(f.forward)) for f in found] == [(0, 0), (1, 2)]


def test_several_failures_in_the_order_of_the_log() -> None:
    other = 'Traceback (most recent call last):\n  File "a.py", line 1, in f\n    1 / 0\nZeroDivisionError: zero\n'
    found = failures(traceback() + "retry\n" + other + traceback(SECOND) + traceback(SECOND))
    assert [f.type for f in found] == ["RuntimeError", "ZeroDivisionError", "RuntimeError"]
    assert [f.match.id if f.match else None for f in found] == [
        "inplace-version-mismatch-anomaly",
        None,
        "backward-second-time",
    ]
    assert [f.count for f in found] == [1, 1, 2]
    assert [f.line for f in found] == [1, 13, 17]


def test_an_exception_behind_another() -> None:
    outer = 'Traceback (most recent call last):\n  File "b.py", line 2, in run\n    fit()\ntrainer.FitError: no\n'
    middle = "\nThe above exception was the direct cause of the following exception:\n\n"
    first, second = failures(traceback() + middle + outer)
    assert_version_error(first)
    assert second.type == "trainer.FitError" and second.chain[0].startswith("RuntimeError: one of the variables")


def test_a_message_over_several_lines_ends_where_it_ends() -> None:
    text = (
        "Expected to have finished reduction in the prior iteration before starting a new one. This error indicates "
        "that your module has parameters that were not used in producing loss, and by \nmaking sure all `forward` "
        "function outputs participate in calculating loss. \nParameter indices which did not receive grad for rank 1: "
        "2 3\n In addition, you can set the environment variable"
    )
    failure = only(prefixed(traceback(text) + "W0101 torchelastic: closing\n", "[rank1]: "))
    assert failure.match is not None and failure.match.id == "ddp-unused-parameters"
    assert failure.match.fields == {"rank": "1", "indices": "2 3"}
    assert failure.message.endswith("rank 1: 2 3")


def test_a_log_that_was_cut() -> None:
    whole = traceback()
    headless = only(whole[60:])
    assert headless.match is not None and headless.match.fields["version"] == "20"
    tailless = only(whole[: whole.index("RuntimeError") - 5])
    assert tailless.truncated and tailless.match is None and tailless.place is not None
    half = only(whole[: whole.index("RuntimeError") + 90])
    assert half.match is not None and half.match.partial and half.match.group == "inplace"
    middle = only(whole[:90] + "\n... 1034 lines skipped ...\n" + whole[whole.index("RuntimeError") :])
    assert middle.match is not None and middle.match.group == "inplace"


@pytest.mark.parametrize(
    "text",
    [
        traceback().encode("utf-16"),
        traceback().replace("\n", "\r\n").encode(),
        traceback().replace("\n", "\r").encode(),
        traceback().replace("inplace", "in\x00place").encode() + b"\xff\xfe\x80",
        b"\xe9t\xe9\n" + traceback().encode(),
        wrapped(traceback(), 100).encode(),
    ],
    ids=["utf-16", "crlf", "cr", "nul", "latin-1", "wrapped"],
)
def test_bytes_as_they_come(text: bytes) -> None:
    assert_version_error(only(text))


def test_notebooks_print_tracebacks_of_their_own() -> None:
    old = f"""\
---------------------------------------------------------------------------
RuntimeError                              Traceback (most recent call last)
<ipython-input-5-abc> in <module>
      1 for i in range(3):
----> 2     step(i)

/home/runner/work/demo/train.py in step(i)
     60     loss = f()
---> 61     loss.backward()

/usr/local/lib/python3.7/dist-packages/torch/tensor.py in backward(self, gradient)
    180
--> 181         torch.autograd.backward(self)

RuntimeError: {VERSION}"""
    assert_version_error(only(old))
    new = old.replace(
        "/home/runner/work/demo/train.py in step(i)", "File /home/runner/work/demo/train.py:61, in step(i)"
    )
    new = new.replace("<ipython-input-5-abc> in <module>", "Cell In[5], line 2")
    failure = only(new)
    assert_version_error(failure)
    assert (failure.frames[0].file, failure.frames[0].line) == ("In[5]", 2)


def test_groups_of_exceptions_have_a_margin() -> None:
    inner = prefixed(traceback(), "    | ")
    text = (
        "  + Exception Group Traceback (most recent call last):\n"
        '  |   File "/home/runner/work/demo/run.py", line 3, in <module>\n'
        "  | ExceptionGroup: both (1 sub-exception)\n"
        "  +-+---------------- 1 ----------------\n" + inner + "    +------------------------------------\n"
    )
    group, member = failures(text)
    assert group.type == "ExceptionGroup"
    assert_version_error(member)


def test_messages_without_a_traceback() -> None:
    failure = only(
        "2024-01-01 00:00:00,123 - trainer - ERROR - failed: grad can be implicitly created only for scalar outputs\n"
    )
    assert failure.message == "grad can be implicitly created only for scalar outputs"
    assert failure.type == "RuntimeError"
    pasted = only(textwrap.fill(VERSION, 60))
    assert pasted.match is not None and pasted.match.fields["expected"] == "19"


def test_a_summary_that_repeats_the_failure_is_no_second_one() -> None:
    failure = only(
        traceback()
        + "=== short test summary info ===\nFAILED test_a.py::test - RuntimeError: "
        + VERSION[:70]
        + "...\n"
    )
    assert_version_error(failure)


def test_known_warnings_are_told_and_others_are_not() -> None:
    known = (
        "train.py:3: UserWarning: The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its "
        ".grad attribute won't be populated during autograd.backward(). If you indeed want\n  print(y.grad)\n"
    )
    failure = only("x.py:1: UserWarning: something else\n  f()\n" + known + known)
    assert failure.type == "UserWarning" and failure.match is not None and failure.match.id == "nonleaf-grad"
    assert failure.place is not None and failure.place.line == 3
    assert failure.code == {("train.py", 3): "print(y.grad)"}
    assert only(f"/x/site-packages/torch/_tensor.py:9{known[8:]}").place is None


def test_a_traceback_may_follow_a_warning_at_once() -> None:
    known = "t.py:3: UserWarning: `parameters` is an empty generator, no gradient clipping will occur.\n"
    warned, failure = failures(known + traceback())
    assert len(warned.frames) == 1
    assert_version_error(failure)


def test_nothing_is_found_in_an_ordinary_log() -> None:
    assert failures("") == []
    assert failures("\n".join(f"step {i} loss={i / 7:.3f} grad_norm=1.2" for i in range(3000))) == []


def test_a_bare_line_in_words_that_any_program_prints_is_no_failure() -> None:
    assert failures("Invalid learning rate: 3, trying again with a smaller one\nstep 1 loss=0.2\n") == []
    failure = only("ValueError: Invalid learning rate: -1\n")
    assert failure.match is not None and failure.match.id == "optimizer-argument-words"


@pytest.mark.parametrize(
    ("file", "user"),
    [
        ("train.py", True),
        ("/home/me/lib/train.py", True),
        ("/home/me/site-packages-tools/a.py", True),
        ("/home/me/python3/train.py", True),
        ("<stdin>", True),
        ("C:\\Users\\me\\train.py", True),
        ("/home/me/torch_models/net.py", True),
        ("/usr/lib/python3.11/threading.py", False),
        ("/opt/conda/lib/python3.8/site-packages/torch/_tensor.py", False),
        ("/usr/local/lib/python3.7/dist-packages/lightning/trainer.py", False),
        ("C:\\Python311\\Lib\\runpy.py", False),
        ("/build/pytorch/torch/autograd/graph.py", False),
        ("<frozen runpy>", False),
    ],
)
def test_whose_code_a_file_is(file: str, user: bool) -> None:
    text = traceback().replace("/home/runner/work/demo/train.py", file)
    assert only(text).frames[0].user is user


def test_terminal_escapes_do_not_get_through() -> None:
    evil = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202e"
    text = traceback().replace("in step", f"in step{evil}").replace("loss.backward()", f"loss.backward(){evil}")
    failure = only(text.replace("demo/", f"demo/{evil}").replace("RuntimeError:", f"RuntimeError: {evil}"))
    shown = repr(failure)
    for bad in ("\\x1b", "\\x07", "\\x9b", "\\u202e"):
        assert bad not in shown


@pytest.mark.slow
def test_memory_does_not_grow_with_the_log() -> None:
    block = b"".join(b"step %d loss=%d lr=0.1\n" % (i, i) for i in range(40_000))

    class Endless(io.RawIOBase):
        left = 24

        def readable(self) -> bool:
            return True

        def read(self, size: int = -1) -> bytes:
            self.left -= 1
            return b"%d left\n" % self.left + block if self.left >= 0 else b""

    tracemalloc.start()
    read_log(Endless())  # type: ignore[arg-type]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40_000_000
