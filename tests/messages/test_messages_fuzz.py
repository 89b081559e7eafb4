"""No text makes the reader raise, and whatever it finds can be written out again."""

from __future__ import annotations

import io
import json

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from logs import CPP, INDUCED, TODAY, traceback

from graphdoc.messages import clean, evidence_from, read_log, recognise, recognise_exception
from graphdoc.messages.recognise import entries

PIECES = [e.example for e in entries()]
PIECES += [TODAY, CPP, INDUCED, traceback(), "[rank0]: ", "\x1b[31m", "\x1b]0;", "\r", "\n", "\x00", "> ", "  | "]
PIECES += ["Traceback (most recent call last):\n", '  File "', '", line ', "RuntimeError: ", "During handling of "]

relaxed = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))


@st.composite
def spliced(draw: st.DrawFn) -> str:
    """Known messages and pieces of logs, each cut somewhere, in any order."""
    parts = draw(st.lists(st.sampled_from(PIECES) | st.text(max_size=30), max_size=12))
    cut = []
    for part in parts:
        start = draw(st.integers(0, len(part)))
        end = draw(st.integers(start, len(part)))
        cut.append(part if draw(st.booleans()) else part[start:end])
    return draw(st.sampled_from(["", "\n", " ", "\n[rank1]: "])).join(cut)


def check(data: bytes) -> None:
    for failure in read_log(io.BytesIO(data)):
        document = json.dumps(evidence_from(failure).to_json())
        assert "\\u001b" not in document and "\\u0000" not in document


@relaxed
@given(st.binary(max_size=4000))
def test_any_bytes(data: bytes) -> None:
    check(data)


@relaxed
@given(spliced())
def test_messages_cut_and_spliced(text: str) -> None:
    check(text.encode("utf-8", "surrogatepass"))


@relaxed
@given(spliced() | st.text(alphabet=st.characters(), max_size=2000))
def test_recognising_never_raises_and_its_places_are_inside(text: str) -> None:
    for match in recognise(text):
        assert 0 <= match.start <= match.end <= len(text)
        assert all(value == clean(value) for value in match.fields.values())
    recognise_exception("RuntimeError", text)


@relaxed
@given(st.text(alphabet=st.characters(), max_size=500))
def test_clean_is_final(text: str) -> None:
    once = clean(text)
    assert clean(once) == once
    assert "\x1b" not in once
