"""No module says ``certain`` by itself: each names the fact that proves it."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import graphdoc
from graphdoc.program.proof import Proof

PACKAGE = Path(graphdoc.__file__).parent


def _said(tree: ast.AST) -> list[int]:
    """Lines that give the word as a value; a comparison with it gives nothing."""
    compared = {id(c) for n in ast.walk(tree) if isinstance(n, ast.Compare) for c in ast.walk(n)}
    return [
        n.lineno
        for n in ast.walk(tree)
        if isinstance(n, ast.Constant) and n.value == "certain" and id(n) not in compared
    ]


@cache
def _read() -> tuple[set[str], set[str]]:
    """The files that say ``certain``, and the proofs that are asked for."""
    said, used = set(), set()
    for file in (f for room in ("causes", "story", "remedies", "program") for f in (PACKAGE / room).rglob("*.py")):
        text = file.read_text(encoding="utf-8")
        if "certain" not in text and "Proof" not in text:
            continue
        tree = ast.parse(text)
        said |= {file.name} if _said(tree) else set()
        names = (n for n in ast.walk(tree) if isinstance(n, ast.Attribute))
        used |= {n.attr for n in names if isinstance(n.value, ast.Name) and n.value.id == "Proof"}
    return said, used


def test_a_word_that_is_given_is_found_and_one_that_is_compared_is_not() -> None:
    assert _said(ast.parse('a = f("certain")\nb = a == "certain"\nc = a if b else "certain"\n')) == [1, 3]


def test_certain_is_said_by_proofs_alone() -> None:
    assert _read()[0] == {"proof.py"}


def test_every_proof_is_asked_for() -> None:
    assert _read()[1] == set(Proof.__members__)


def test_a_proof_is_one_clause() -> None:
    for proof in Proof:
        assert len(proof.value.split()) <= 12 and not re.search(r"[.;:]", proof.value), proof
        assert (proof.confidence, proof.where(False)) == ("certain", "likely")
