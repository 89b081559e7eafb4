"""The list of PyTorch's messages: made by rule from the installed torch, found in logs, and nowhere else."""

from __future__ import annotations

import io
import random
import re
import sysconfig
import textwrap
from collections import Counter
from pathlib import Path

import pytest
from inventory import FILE, collect, template, version_of, written
from inventory_filled import filled
from inventory_sources import messages_of_file

from graphdoc.messages import read_log, recognise
from graphdoc.messages.recognise import Listed, messages

ALL = messages()
DRAWN = random.Random(13).sample(ALL, 300)


def text_of(message: Listed) -> str:
    pieces = [message.parts[0]]
    for field, part in zip(message.fields, message.parts[1:], strict=True):
        pieces += [f"⟨{field}⟩", part]
    return filled("".join(pieces))


def log_of(message: Listed, text: str) -> str:
    """As a training job prints it."""
    if message.exception.endswith("Warning"):
        return f"epoch 3\n/home/me/train.py:31: {message.exception}: {text}\n  step()\nepoch 4\n"
    place = message.place if message.place.endswith(".py") else "torch/_ops.py"
    return (
        'epoch 3\nTraceback (most recent call last):\n  File "/home/me/train.py", line 31, in <module>\n    step()\n'
        f'  File "/home/me/env/lib/python3.12/site-packages/{place}", line 7, in check\n    check(x)\n'
        f"{message.exception}: {text}\n"
    )


def is_known(log: str) -> bool:
    return any(failure.match for failure in read_log(io.BytesIO(log.encode())))


@pytest.mark.breadth(1)
@pytest.mark.parametrize("shape", ["whole", "wrapped", "ranks"])
def test_a_message_is_recognised_in_a_log(shape: str) -> None:
    missed = []
    for message in DRAWN:
        log = log_of(message, text_of(message))
        if shape == "wrapped" and not message.exception.endswith("Warning"):
            log = log_of(message, textwrap.fill(text_of(message), 72))
        elif shape == "ranks":
            log = "".join(f"[rank1]: {line}\n" for line in log.splitlines())
        if not is_known(log):
            missed.append(f"{message.place}: {text_of(message)}")
    assert len(missed) <= 0.01 * len(DRAWN), "\n".join(missed)


def test_a_message_is_recognised_alone_unless_its_words_are_few() -> None:
    missed = [m for m in DRAWN if m.telling and not recognise(text_of(m))]
    assert not missed
    assert sum(m.telling for m in ALL) > 0.9 * len(ALL)


def test_few_words_are_recognised_where_torch_has_raised_them() -> None:
    few = next(m for m in ALL if m.parts == ("planner is None",))
    log = log_of(few, text_of(few))
    assert is_known(log)
    assert not is_known(text_of(few)) and not is_known(f"{few.exception}: {text_of(few)}")
    assert not is_known(log.replace("site-packages/torch/", "site-packages/planning/"))


def _one(words: str) -> Listed:
    return next(m for m in ALL if m.place.endswith(".py") and " ".join(m.parts).startswith(words))


def test_another_class_of_exception_is_another_message() -> None:
    words = _one("`dynamic` and `shapes_spec` cannot both be set").parts[0]
    assert is_known(f"ValueError: {words}") and is_known(words)
    assert not is_known(f"my.OtherError: {words}")


def test_a_sentence_that_quotes_a_message_is_not_one() -> None:
    words = _one("`dynamic` and `shapes_spec` cannot both be set").parts[0]
    assert not recognise(f"we have seen that {words} once, but never again")


def test_a_listed_message_says_where_it_comes_from_and_no_more() -> None:
    told = _one("Flatten mesh with mesh_dim_name")
    (match,) = recognise(text_of(told))
    assert match.listed and not match.causes and match.fields
    assert match.means == f"PyTorch raises this in {told.place}. graphdoc knows the message and no cause for it."


# The parts of torch that decide what a message is about.
FAMILIES = (
    (r"torch/amp/grad_scaler", {"amp"}),
    (r"torch/amp/autocast", {"amp"}),
    (r"torch/autograd/gradcheck", {"gradcheck"}),
    (r"torch/autograd/functional", {"functional", "functorch"}),
    (r"torch/autograd/forward_ad", {"forward-ad"}),
    (r"torch/optim/", {"optimizer", "amp", "nn-utils"}),
    (r"torch/distributed/pipelining/", {"pipeline"}),
    (r"torch/distributed/optim/", {"optimizer", "ddp"}),
    (r"torch/distributed/fsdp/sharded_grad_scaler", {"amp"}),
    (r"torch/distributed/fsdp/(?!sharded)", {"fsdp", "ddp", "optimizer", "nn-utils", "amp", "checkpoint"}),
    (r"torch/nn/utils/(parametrize|_expanded_weights|clip_grad)", {"nn-utils", "legacy"}),
    (r"torch/_functorch/_aot_autograd/", {"compile", "checkpoint", "custom-function", "inplace-view"}),
    (r"torch/_dynamo/", {"compile", "no-graph", "forward-ad", "checkpoint", "custom-function", "functorch", "hooks"}),
    (r"torch/_functorch/(eager_transforms|vmap|apis|functional_call|make_functional)", {"functorch", "forward-ad"}),
)


def test_a_message_with_a_meaning_is_of_the_family_of_its_place() -> None:
    """Patterns speak before the list: what they take is theirs."""
    wrong = []
    places = Counter(message.parts for message in ALL)
    for message in (m for m in ALL if places[m.parts] == 1):
        families = [known for where, known in FAMILIES if re.match(where, message.place)]
        first = next(iter(recognise(text_of(message))), None) if families else None
        if first and not first.listed and all(first.family not in known for known in families):
            wrong.append(f"{first.id} ({first.family}): {message.place}: {text_of(message)[:120]}")
    assert not wrong, "\n".join(wrong)


def test_messages_of_other_programs_are_not_autograd() -> None:
    """What the standard library raises and warns with: none of it is PyTorch's, however alike the words."""
    library = Path(sysconfig.get_paths()["stdlib"])
    found = []
    for part in (
        "argparse.py",
        "asyncio",
        "collections",
        "concurrent",
        "copy.py",
        "csv.py",
        "email",
        "http",
        "inspect.py",
    ):
        path = library / part
        for source in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            for message in messages_of_file(source.name, source.read_text(encoding="utf-8")):
                found.append(message.text)
                assert not recognise(filled(message.text)), f"{source}: {message.text}"
    assert len(found) > 200


SOURCE = """
import warnings
import torch
LONG = "a module's text about grad"

class Layer:
    def forward(self, x, n):
        if n < 0:
            raise ValueError(f"expected n >= 0 for {x.shape} but got {n!r}")
        if n == 1:
            raise RuntimeError("cannot take the gradient of %s twice" % x)
        if n == 2:
            text = "no derivative for {} and {name}".format(x, name=n)
            raise NotImplementedError(text + ", sorry")
        assert n != 3, "three is not allowed here"
        torch._check(n != 4, lambda: f"n has to be another, not {n}")
        warnings.warn("the gradient may be wrong", FutureWarning, stacklevel=2)
        if n == 5:
            self.refuse(KeyError, f"no layer is called {n}")
        why = f"too few layers for {n}" if n == 6 else "far too many layers"
        raise TypeError(LONG if n == 7 else why)

    def refuse(self, kind, message):
        raise kind(message)
"""


def test_messages_are_found_by_syntax_with_their_values_as_placeholders() -> None:
    found = [(m.text, m.kind, m.exception) for m in messages_of_file("torch/autograd/x.py", SOURCE)]
    assert found == [
        ("expected n >= 0 for ⟨x.shape⟩ but got ⟨n⟩", "error", "ValueError"),
        ("cannot take the gradient of ⟨value⟩ twice", "error", "RuntimeError"),
        ("no derivative for ⟨value⟩ and ⟨name⟩, sorry", "error", "NotImplementedError"),
        ("three is not allowed here", "error", "AssertionError"),
        ("n has to be another, not ⟨n⟩", "error", "RuntimeError"),
        ("the gradient may be wrong", "warning", "FutureWarning"),
        ("no layer is called ⟨n⟩", "error", "KeyError"),
        ("a module's text about grad", "error", "TypeError"),
        ("too few layers for ⟨n⟩", "error", "TypeError"),
        ("far too many layers", "error", "TypeError"),
    ]


def test_a_reason_not_to_compile_is_printed_with_its_explanation() -> None:
    source = 'unimplemented(gb_type="No such call", context="", explanation=f"{name} is not traced", hints=[])'
    (found,) = messages_of_file("torch/_dynamo/x.py", source)
    assert found.text == "No such call Explanation: ⟨name⟩ is not traced" and found.exception == "Unsupported"


def test_fields_have_the_names_of_the_values() -> None:
    assert template("got ⟨len(self.groups)⟩ of ⟨type(x).__name__⟩ and ⟨other.groups⟩") == (
        "got ⟨groups⟩ of ⟨value⟩ and ⟨groups2⟩"
    )


def test_a_new_release_shows_as_new_lines(tmp_path: Path) -> None:
    for name in ("autograd/x.py", "io.py"):
        path = tmp_path / "torch" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(SOURCE, encoding="utf-8")
    (tmp_path / "torch" / "version.py").write_text("__version__ = '2.16.1+cpu'\n", encoding="utf-8")
    (tmp_path / "torch" / "lib").mkdir()
    library = b"\0the leaf needs a gradient here, or else\0_ZN5torch8autogradE\0"
    (tmp_path / "torch" / "lib" / "libtorch_cpu.so").write_bytes(library)
    first, *lines = written(collect(tmp_path), version_of(tmp_path)).splitlines()
    assert first.endswith("torch 2.16.1")
    assert lines[:2] == ["libtorch_cpu", "RuntimeError\tthe leaf needs a gradient here, or else"]
    assert "AssertionError?\tthree is not allowed here" in lines and "_ZN5" not in "".join(lines)
    assert lines.count("FutureWarning\tthe gradient may be wrong") == 2


@pytest.mark.slow
def test_the_list_is_what_the_installed_torch_can_say() -> None:
    """After a new release: run inventory.py, and write patterns for what it adds."""
    import torch

    package = Path(torch.__file__).parents[1]
    kept = FILE.read_text(encoding="utf-8")
    if not kept.partition("\n")[0].endswith(f"torch {version_of(package)}"):
        pytest.skip(f"the list is of another release than {torch.__version__}")
    assert written(collect(package), version_of(package)) == kept
