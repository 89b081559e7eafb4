"""Every cause's page is complete, and its healthy examples are left alone; tests/golden has the sick ones."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import told_in_forks
from examples import FOLDER, Example, at_every_save, healthy, sick

from graphdoc.causes import all_causes, find
from graphdoc.causes.base import Cause
from graphdoc.causes.links import link

CAUSES = all_causes()

# Slugs are fixed: reports, checks and users' own notes refer to them.
SLUGS = {
    "GD1": "carried-state stored-with-graph undetached-target shared-subgraph-losses graph-built-once "
    "accumulated-loss repeated-backward",
    "GD2": "optimizer-step-before-backward retain-graph-cover-up inplace-on-saved-activation "
    "state-overwritten-in-place buffer-updated-in-place parameter-overwritten inplace-on-leaf inplace-on-view "
    "inplace-on-inference-tensor inplace-under-transform",
    "GD3": "cut-by-conversion cut-by-detach cut-by-no-grad nondifferentiable-op frozen-parameters input-needs-grad "
    "unused-in-graph non-leaf-parameter grad-is-none",
    "GD4": "missing-create-graph no-double-backward",
    "GD5": "non-scalar-loss numpy-on-grad-tensor deepcopy-non-leaf integer-requires-grad requires-grad-on-non-leaf "
    "custom-function-bad-gradient custom-function-saved-misuse amp-scaler-misuse call-refused",
    "GD7": "gradient-leaks-into-target grad-aliased step-missing stale-parameter-unseen parameters-never-reached "
    "optimizer-holds-stale-parameters zero-grad-missing cleared-before-step graph-grows clipping-without-effect "
    "straight-through-cancels",
    "GD6": "nan-log-of-zero nan-sqrt-at-zero nan-norm-at-zero nan-division-by-zero nan-where-branch nan-exp-overflow "
    "nan-std-of-one nan-pow nan-acos-boundary nan-masked-softmax nan-repeated-eigenvalues nan-ctc-infeasible "
    "nan-half-overflow nan-uninitialised-parameter nan-optimizer-update nan-input-data exploding-gradients",
    "GD8": "ddp-unused-parameters ddp-marked-ready-twice ddp-buffer-broadcast checkpoint-mismatch "
    "checkpoint-no-grad-input compile-donated-buffers compile-no-double-backward fsdp-hook-dropped "
    "gradients-not-averaged mixed-dtensors kept-gradient-nodes",
}
FOLDERS = {
    "GD1": "second_backward",
    "GD2": "overwritten",
    "GD3": "no_gradient",
    "GD4": "higher_order",
    "GD5": "misuse",
    "GD6": "nonfinite",
    "GD7": "silent",
    "GD8": "distributed",
}
PROVOKED_NO_MORE = {"ddp-buffer-broadcast", "compile-donated-buffers"}
FIXED = [(group, slug) for group, slugs in SLUGS.items() for slug in slugs.split()]
HEALTHY = [(c, e) for c in CAUSES for e in healthy(c)]


def each_cause(check: Callable[[Cause], None]) -> Callable[[], None]:
    """One test of all causes: to hand out a test for each of them takes longer than to run it."""

    def test() -> None:
        for cause in CAUSES:
            check(cause)

    return test


# -- the page ----------------------------------------------------------------------------------------------------------


def test_codes_and_slugs_are_unique() -> None:
    assert len({c.code for c in CAUSES}) == len(CAUSES)
    assert len({c.slug for c in CAUSES}) == len(CAUSES)


def test_every_fixed_slug_has_a_cause_in_its_group() -> None:
    for group, slug in FIXED:
        cause = find(slug)
        assert cause is not None, f"no file for {slug}"
        assert re.fullmatch(rf"{group}\d\d", cause.code)
        assert find(cause.code.lower()) is cause


@each_cause
def test_file_is_named_after_the_slug(cause: Cause) -> None:
    module = f"graphdoc.causes.{FOLDERS[cause.code[:3]]}.{cause.slug.replace('-', '_')}"
    assert cause.recognise.__module__ == module
    assert (FOLDER / cause.slug).is_dir()


@each_cause
def test_every_part_of_the_page_is_there(cause: Cause) -> None:
    page = cause.page
    for part in ("what_happened", "why", "example", "use_instead", "fix_safety", "not_this"):
        text = getattr(page, part)
        assert text.strip(), part
        assert text == text.lstrip("\n"), f"{part} begins with an empty line"
    assert cause.title.strip() == cause.title and "\n" not in cause.title and not cause.title.endswith(".")
    assert len(cause.title) <= 110
    assert page.references
    assert all(
        url.startswith(("https://docs.pytorch.org/", "https://pytorch.org/")) for _, url in map(link, page.references)
    )
    assert len(set(page.references)) == len(page.references)


@each_cause
def test_page_never_asks(cause: Cause) -> None:
    for part in ("what_happened", "why", "fix_safety", "not_this"):
        prose = re.sub(r"`[^`]*`", "", getattr(cause.page, part))
        assert "?" not in prose, part


@each_cause
def test_example_and_use_instead_parse(cause: Cause) -> None:
    wrong, right = ast.parse(cause.page.example), ast.parse(cause.page.use_instead)
    assert ast.dump(wrong) != ast.dump(right)


@each_cause
def test_fix_safety_says_how_safe_each_fix_is(cause: Cause) -> None:
    assert re.search(r"\b(unsafe|safe|display)\b", cause.page.fix_safety, re.IGNORECASE)


@each_cause
def test_retaining_the_graph_is_never_what_to_write_instead(cause: Cause) -> None:
    if cause.code.startswith(("GD1", "GD2")):
        assert "retain_graph=True" not in cause.page.use_instead


@each_cause
def test_neighbours_that_a_page_names_exist(cause: Cause) -> None:
    known = {slug for _, slug in FIXED} | {c.slug for c in CAUSES}
    named_here = set(re.findall(r"`([a-z]+(?:-[a-z]+)+)`", cause.page.not_this + cause.page.fix_safety))
    assert named_here <= known
    assert cause.slug not in re.findall(r"`([a-z-]+)`", cause.page.not_this), "a page does not send to itself"


@each_cause
def test_enough_examples_of_both_kinds(cause: Cause) -> None:
    # ddp-buffer-broadcast: PyTorch 2.13 keeps the version counter there, so no program of today's can be made to fail.
    assert len(sick(cause)) >= 2 or cause.slug in PROVOKED_NO_MORE
    assert len(healthy(cause)) >= 2
    names = [e.name for e in (*sick(cause), *healthy(cause))]
    assert len(set(names)) == len(names)


# -- the examples ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("cause", "example"), at_every_save(HEALTHY))
def test_healthy_example_runs_to_its_end_and_is_left_alone(cause: Cause, example: Example, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(example.code)
    told = told_in_forks.run(tmp_path)
    # DDP's reducer notes in its own words that a flag was not needed; that is no failure.
    noise = [line for line in told.stderr.splitlines() if "reducer.cpp" not in line]
    assert (told.report.run.exit_status, noise) == (0, [])
    assert told.report.diagnoses == ()
