"""What is computed again for a store: only from what stands beside it there, and as it was computed at first."""

from __future__ import annotations

import ast
from typing import Any

import pytest

from graphdoc.evidence import Step
from graphdoc.fixes.fix_kind import CannotFix
from graphdoc.fixes.kinds import build
from graphdoc.program.bindings import frame_of, tree
from graphdoc.program.container_entries import Entry
from graphdoc.remedies.emptied_store import recipe_of
from graphdoc.source.module import Source

LISTS = """\
def act(state):
    x = torch.as_tensor(state).float()
    dist = Categorical(policy(x))
    action = dist.sample()
    states.append(state)
    actions.append(action)
    log_probs.append(dist.log_prob(action))
"""
RECORDS = """\
def play(env):
    state = env.reset()
    for _ in range(9):
        mean, std = policy(state)
        dist = Normal(mean, std)
        action = dist.sample()
        memory.append((state, action, dist.log_prob(action)))
        state = env.step(action)
"""


LOG_PROBS = Entry("log_probs", "Tensor", None)
THIRD = Entry("memory", "tuple", Step("index", "2", "Tensor"))


def value_of(text: str, store: str, entry: Entry) -> tuple[str, dict[str, str]] | None:
    sources = {"train.py": text}
    root = tree(sources, "train.py")
    assert root is not None
    put = next(n for n in ast.walk(root) if isinstance(n, ast.Expr) and ast.unparse(n).startswith(store))
    found = recipe_of(sources, frame_of(sources, "train.py", put), put, entry)
    return (found.value, dict(found.siblings)) if found is not None else None


def test_names_are_followed_as_far_as_to_what_is_kept() -> None:
    assert value_of(LISTS, "log_probs.append", LOG_PROBS) == (
        "Categorical(policy(torch.as_tensor(state).float())).log_prob(action)",
        {"state": "states", "action": "actions"},
    )
    assert value_of(RECORDS, "memory.append", THIRD) == (
        "Normal(*policy(state)).log_prob(action)",
        {"state": "0", "action": "1"},
    )


@pytest.mark.parametrize(
    ("text", "old", "new"),
    [
        (LISTS, "    states.append(state)\n", ""),  # what it is computed from is not kept
        (LISTS, "    actions.append(action)\n", ""),  # another draw would be another action
        (LISTS, "    states.append(state)\n", "    state = state + 1\n    states.append(state)\n"),
        (LISTS, "    states.append(state)\n", "    if state[0] > 0:\n        states.append(state)\n"),  # not for each
        (LISTS, "policy(x)", "policy(x, torch.randn(3))"),
        (LISTS, "    dist =", "    if x.sum() > 0:\n        x = -x\n    dist ="),
        (RECORDS, "(state, action, dist", "(env.last, action, dist"),
        (RECORDS, "dist.log_prob(action))", "dist.log_prob(action) + mean * std)"),  # two calls of the network
    ],
)
def test_what_cannot_be_had_again_is_not_computed(text: str, old: str, new: str) -> None:
    changed = text.replace(old, new)
    assert changed != text
    store, entry = ("log_probs.append", LOG_PROBS) if text is LISTS else ("memory.append", THIRD)
    assert value_of(changed, store, entry) is None


READS = {
    "loss = sum(log_probs)": "loss = sum([f(s, a) for s, a in zip(states, actions)])",
    "loss = log_probs[i] * 2": "loss = f(states[i], actions[i]) * 2",
    "n = len(log_probs)\n    loss = torch.stack(log_probs).sum() / n": (
        "n = len(log_probs)\n    loss = torch.stack([f(s, a) for s, a in zip(states, actions)]).sum() / n"
    ),
}


def read(body: str, head: str = "def update(i):", **more: Any) -> str:
    text = "log_probs, states, actions = [], [], []\n\n\ndef act(s):\n    log_probs.append(f(s, a))\n\n\n"
    text += f"{head}\n    {body}\n"
    source = Source("train.py", text)
    last = text.count("\n")
    args = {
        "place": {"file": "train.py", "line": 5},
        "reads": [{"file": "train.py", "line": last}],
        "containers": ["log_probs"],
        "value": "f(s, a)",
        "siblings": [["s", "states"], ["a", "actions"]],
        **more,
    }
    return build("recompute_entries", {"train.py": source}, args)["train.py"].partition(f"{head}\n    ")[2].rstrip()


@pytest.mark.parametrize("body", READS)
def test_lists_are_computed_where_they_are_read(body: str) -> None:
    assert read(body) == READS[body]


FIELDS = {
    "for state, action, _, log_prob in memory:\n        loss += log_prob": (
        "for state, action, _, log_prob in memory:\n        loss += f(state, action)"
    ),
    "x, y, r, old = zip(*memory)\n    loss = sum(old)": (
        "x, y, r, old = zip(*memory)\n    loss = sum([f(s, a) for s, a in zip(x, y)])"
    ),
    "loss = sum(p * r for x, y, r, p in memory)": "loss = sum(f(x, y) * r for x, y, r, p in memory)",
}


@pytest.mark.parametrize("body", FIELDS)
def test_fields_are_computed_where_entries_are_taken_apart(body: str) -> None:
    more: dict[str, Any] = {"containers": ["memory"], "field": ["index", "3"], "siblings": [["s", "0"], ["a", "1"]]}
    assert read(body, **more) == FIELDS[body]


@pytest.mark.parametrize(
    ("body", "head"),
    [
        ("loss = sum(log_probs)", "def update(f):"),  # another f
        ("loss = total()", "def update():"),
    ],
)
def test_what_would_mean_something_else_is_refused(body: str, head: str) -> None:
    with pytest.raises(CannotFix):
        read(body, head)
