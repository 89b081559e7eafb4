"""Every message of the inventory is recognised, or there is a reason why it is not."""

from __future__ import annotations

import functools
import re
import sysconfig
from collections import Counter
from pathlib import Path

import pytest
from inventory import WANTED, Message, collect, merged, read, write
from inventory_filled import filled
from inventory_sources import literal, messages_of_file

from graphdoc.messages import recognise
from graphdoc.messages.known_messages import wordings

# Why a message needs no pattern: (reason, where it stands, its words).
EXCUSED = (
    (
        "the profiler is not autograd",
        r"torch/(autograd/profiler|profiler/)",
        r"",
    ),
    (
        "words that any program prints: a pattern would find them where torch is not at fault",
        r"torch/",
        r"to be callable but got|^Unknown (pass|backward) type|[(]⟨[^⟩]*⟩, ⟨[^⟩]*⟩[)] references|"
        r"has invalid size|does not have a method|^Can't find ⟨|^Invalid parameter keys|no available devices|"
        r"could not be determined|same number of keys|^Rank ⟨|Unsupported node op|strict mode is enabled|"
        r"from disk$|implement forward|implement expr|Unknown metadata|couldn't be found|Empty bucket|"
        r"[Pp]arameters are not in the module$|^dilation=|xs leaf$|exactly 1 leaf|"
        r"non-empty (`params`|`tensors`|graph)|\)=⟨|^⟨e⟩|val must not|logger must not|MultiGraph",
    ),
    (
        "saving and handing over tensors",
        r"torch/_tensor\.py",
        r"meta device under skip_data|stream",
    ),
    (
        "a leaf of a tree of Python containers",
        r"torch/(_dynamo/polyfills/pytree|utils/_pytree|fx/experimental)",
        r"",
    ),
    (
        "random numbers, which live in torch.func since 2.15",
        r"torch/func/_random",
        r"",
    ),
    (
        "a search in a graph of another kind",
        r"torch/_functorch/_activation_checkpointing/",
        r"graph|flow|node",
    ),
    (
        "says backward of something else",
        r"",
        r"ONNX|backwards?[- ]compat|backward jump",
    ),
    (
        "a list of names of PyTorch's own stages",
        r"torch/_decomp/|torch/autograd/__init__",
        r"post_autograd|^cls isn't",
    ),
    (
        "numerical gradients as NumPy has them, in NumPy's words",
        r"torch/_numpy/",
        r"",
    ),
    (
        "an option of export or of matrix products",
        r"torch/(_export|_higher_order_ops/flex_gemm)",
        r"pre_dispatch_graph|FlexGEMM",
    ),
    (
        "the tail of a message whose head is recognised",
        r"^lib",
        r"of a function being|, but gradOutput has|functional\.\{|C\+\+, add|inside of vmap|If unused|"
        r"gradient is on$|reentrant backward when|please switch to|participate in the|we expect$|Please file|"
        r"becomes part|vmap instead$|gradients from$|show up unexpectedly|is forbidden\.$|any inputs are$",
    ),
    (
        "TorchScript's compiler and its parser, and lines for PyTorch's makers",
        r"^lib",
        r"guardDiff|symints in autograd|nested grad|Saved tensor to|autodiff|leaf guard|found_inf|"
        r"requires_grad|cpu reducer|to differentiate|reset_backward_hooks|gamma|depthwise|Grad:dim|"
        r"its updated value|valid gradient function|in backwards pass",
    ),
)
# A check inside PyTorch that names nothing of autograd: its words are those of any program.
UNSPECIFIC = "an internal check in words that any program prints"


@functools.cache
def _known_words() -> str:
    """All literal parts of patterns, and all examples."""
    texts = [re.sub(r"\\(.)", r"\1", w.pattern) for _, w in wordings()]
    texts += [w.example for _, w in wordings()]
    return "\n".join(" ".join(t.split()) for t in texts)


def _is_part_of_a_known_one(message: Message) -> bool:
    """Whether patterns hold all its words: it is recognised with other values, or together with its other pieces."""
    pieces = [p.strip(" '\"`.,:;()[]") for p in re.split(r"⟨[^⟩]*⟩", message.text)]
    long = [p for p in pieces if len(p) >= 10]
    return sum(map(len, long)) >= 16 and all(p in _known_words() for p in long)


def _excuse(message: Message) -> str:
    words = literal(message.text)
    if message.exception == "AssertionError" and (len(" ".join(words.split())) < 25 or not WANTED.search(words)):
        return UNSPECIFIC
    for reason, where, pattern in EXCUSED:
        if any(re.search(where, place) for place in message.where) and re.search(pattern, message.text):
            return reason
    return ""


@functools.cache
def _missed() -> tuple[Message, ...]:
    return tuple(m for m in read() if not recognise(filled(m.text)) and not _is_part_of_a_known_one(m))


def test_every_message_is_recognised_or_excused() -> None:
    missed = _missed()
    without = [f"{m.where[0]}: {m.text[:150]}" for m in missed if not _excuse(m)]
    assert not without, "\n".join(["no pattern and no reason:", *without])


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
    (r"torch/nn/utils/(parametrize|_expanded_weights|clip_grad)", {"nn-utils"}),
    (r"torch/_functorch/_aot_autograd/", {"compile", "checkpoint", "custom-function", "inplace-view"}),
    (r"torch/_dynamo/", {"compile", "no-graph", "forward-ad", "checkpoint", "custom-function", "functorch", "hooks"}),
    (r"torch/_functorch/(eager_transforms|vmap|apis|functional_call|make_functional)", {"functorch", "forward-ad"}),
)


def test_a_message_is_of_the_family_of_its_place() -> None:
    wrong = []
    for message in read():
        first = next(iter(recognise(filled(message.text))), None)
        for where, families in FAMILIES:
            if first and all(re.match(where, place) for place in message.where) and first.family not in families:
                wrong.append(f"{first.id} ({first.family}): {message.where[0]}: {message.text[:120]}")
    assert not wrong, "\n".join(wrong)


def test_few_are_excused_and_each_excuse_is_needed() -> None:
    """An excuse that nothing needs any more goes; many of one kind would hide what users meet."""
    reasons = Counter(_excuse(m) for m in _missed())
    assert set(reasons) == {reason for reason, _, _ in EXCUSED} | {UNSPECIFIC}
    assert sum(reasons.values()) < 0.09 * len(read())


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
        raise TypeError(LONG)
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
        ("a module's text about grad", "error", "TypeError"),
    ]


def _release(folder: Path, version: str, source: str, library: bytes) -> Path:
    for name, text in {"version.py": f"__version__ = '{version}'\n", "autograd/x.py": source, "io.py": source}.items():
        path = folder / "torch" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    (folder / "torch" / "lib").mkdir()
    (folder / "torch" / "lib" / "libtorch_cpu.so").write_bytes(library)
    return folder


def test_a_new_release_shows_as_new_lines(tmp_path: Path) -> None:
    old = _release(
        tmp_path / "old", "2.6.0", SOURCE, b"\0the leaf needs a gradient here, or else\0_ZN5torch8autogradE\0"
    )
    new = _release(tmp_path / "new", "2.16.1+cpu", SOURCE.replace("twice", "three times"), b"\0")
    kept = tmp_path / "inventory.jsonl"
    write(merged([], collect(old)), kept)
    before = kept.read_text(encoding="utf-8").splitlines()
    assert any("the leaf needs a gradient here" in line for line in before) and not any(
        "_ZN5" in line for line in before
    )
    write(merged(read(kept), collect(new)), kept)
    after = {m.text: m for m in read(kept)}
    assert after["cannot take the gradient of ⟨value⟩ three times"].first == "2.16"
    assert after["cannot take the gradient of ⟨value⟩ twice"].last == "2.6"
    same = after["three is not allowed here"]
    assert (same.first, same.last, same.where) == ("2.6", "2.16", ("torch/autograd/x.py:Layer.forward",))
    assert (
        "the gradient may be wrong" in after
        and after["the gradient may be wrong"].where[-1] == "torch/io.py:Layer.forward"
    )


@pytest.mark.slow
def test_the_inventory_holds_all_that_the_installed_torch_can_say() -> None:
    """After a new release: run inventory.py, and write patterns for what it adds."""
    import torch

    kept = read()
    version = ".".join(torch.__version__.split(".")[:2])
    if version not in {v for m in kept for v in (m.first, m.last)}:
        pytest.skip(f"torch {version} is not one of the versions of the inventory")
    package = Path(torch.__file__).parents[1]
    missing = {m.text for m in collect(package, libraries=False)} - {m.text for m in kept}
    assert not missing
