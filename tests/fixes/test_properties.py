"""Every fix on ugly and on generated sources: it parses, only what was meant changed, and the patch applies."""

from __future__ import annotations

import subprocess
from os.path import getsize
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from properties import check, decoded

from graphdoc.fixes.apply import unified

UGLY = sorted((Path(__file__).parents[1] / "ugly").glob("*.py"), key=getsize)


@pytest.mark.breadth(10)
@pytest.mark.parametrize("path", UGLY, ids=lambda p: p.stem)
def test_ugly_sources(path, tmp_path):
    text, encoding = decoded(path)
    results = list(dict.fromkeys(check(text, limit=8)))
    assert results
    for number, new in enumerate(results[:: max(1, len(results) // 3)]):
        patch_applies(tmp_path / str(number), f"dir/{path.name}", text, new, encoding)


def patch_applies(folder: Path, name: str, old: str, new: str, encoding: str = "utf-8") -> None:
    """The diff turns the old file into the new one, byte for byte, with git and with patch."""
    diff = unified({name: old}, {name: new}).encode(encoding, "surrogateescape")
    for command in (["git", "apply", "-"], ["patch", "-p1", "-s"]):
        root = folder / command[0]
        file = root / name
        file.parent.mkdir(parents=True)
        file.write_bytes(old.encode(encoding))
        done = subprocess.run(command, cwd=root, input=diff, capture_output=True)
        assert done.returncode == 0, (command, done.stderr, diff)
        assert file.read_bytes() == new.encode(encoding), command
        assert [p.name for p in file.parent.iterdir()] == [file.name]


@pytest.mark.parametrize("name", ["a b.py", "größe.py", "back\\slash.py", 'quo"te.py'])
def test_odd_file_names(name, tmp_path):
    patch_applies(tmp_path, name, "x = 1\ny = 2\n", "x = 1\ny = 3\n")


# -- generated modules ---------------------------------------------------------------------------------------------

SPACE = st.sampled_from(["", " ", "  "])
LEAVES = st.sampled_from(
    ["x", "self.h", "d['k']", "y[0, ...]", "1", "2.5", "torch.ones(2)", "'#'", '"é🤖"', "(x)", "f'{x}'"]
)


def _grow(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    operators = st.sampled_from(["+", "-", "*", "@", " if x else ", " or ", " < ", "**"])
    return st.one_of(
        st.builds(lambda a, s, o, b: f"({a}){s}{o}{s}({b})", inner, SPACE, operators, inner),
        st.builds(lambda a, s, b: f"{a} +{s}{b}", inner, SPACE, inner),
        st.builds(lambda a, b: f"f({a}, k={b})", inner, inner),
        st.builds(lambda a: f"f(*({a}), **d)", inner),
        st.builds(lambda a: f"({a}).sum()", inner),
        st.builds(lambda a: f"-({a})", inner),
        st.builds(lambda a: f"[t for t in ({a}) if t]", inner),
        st.builds(lambda a: f"(w := {a})", inner),
        st.builds(lambda a, b: f"(  # one\n  {a},\n {b} # two )\n)", inner, inner),
        st.builds(lambda a: f"(lambda t: {a})(x)", inner),
    )


EXPRESSION = st.recursive(LEAVES, _grow, max_leaves=5)
SIMPLE = st.one_of(
    EXPRESSION,
    st.builds(lambda t, e: f"{t} = {e}", st.sampled_from(["x", "self.h", "a, b", "y[0]", "x = y"]), EXPRESSION),
    st.builds(lambda e: f"x += {e}", EXPRESSION),
    st.builds(lambda e: f"n: int = {e}", EXPRESSION),
    st.sampled_from(["pass", "x = '''\n  text\n'''", "del x", "assert x, 'no'"]),
)
HEADERS = st.sampled_from(["if x", "for t in x", "while x", "with f(x) as g", "def f(a=x)", "class A", "try"])
COMMENTS = st.sampled_from(["", "", "  # why", " #", "\t# type: ignore"])


@st.composite
def modules(draw: st.DrawFn) -> str:
    unit = draw(st.sampled_from(["\t", "  ", "    "]))
    lines = ["import torch"]

    def row() -> str:
        parts = draw(st.lists(SIMPLE, min_size=1, max_size=3))
        return draw(st.sampled_from(["; ", ";"])).join(parts) + draw(st.sampled_from(["", "", ";"])) + draw(COMMENTS)

    def block(depth: int) -> None:
        for _ in range(draw(st.integers(1, 3))):
            indent = unit * depth
            if depth < 3 and draw(st.integers(0, 2)) == 0:
                header = draw(HEADERS)
                if draw(st.booleans()):
                    lines.append(f"{indent}{header}: {row()}")
                else:
                    lines.append(f"{indent}{header}:{draw(COMMENTS)}")
                    block(depth + 1)
                if header == "try":
                    lines.append(f"{indent}finally: pass")
            else:
                lines.append(indent + row())
            if draw(st.integers(0, 3)) == 0:
                lines.append(draw(st.sampled_from(["", indent + "# a note", "   "])))

    block(0)
    text = "\n".join(lines) + draw(st.sampled_from(["\n", ""]))
    newline = draw(st.sampled_from(["\n", "\r\n"]))
    return draw(st.sampled_from(["", "\ufeff"])) + text.replace("\n", newline)


@pytest.mark.slow
@settings(max_examples=200, derandomize=True, suppress_health_check=list(HealthCheck))
@given(modules())
def test_many_generated_modules(text):
    every_fix(text, 12)


@settings(max_examples=15, derandomize=True, suppress_health_check=list(HealthCheck))
@given(modules())
def test_generated_modules(text):
    every_fix(text, 5)


def every_fix(text: str, limit: int) -> None:
    try:
        compile(text.removeprefix("\ufeff"), "a.py", "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return
    for _ in check(text, limit=limit):
        pass


@settings(max_examples=5, suppress_health_check=list(HealthCheck))
@given(modules())
def test_patches_of_generated_modules(tmp_path_factory, text):
    try:
        compile(text.removeprefix("\ufeff"), "a.py", "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return
    results = list(check(text, limit=3))
    for new in results[:2]:
        patch_applies(tmp_path_factory.mktemp("patch"), "a.py", text, new)
