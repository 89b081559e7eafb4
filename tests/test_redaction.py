"""Secrets of the command line, the environment and exceptions reach neither the evidence nor a report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from commands import graphdoc

from graphdoc.redaction import MASK, is_secret_name, redact, redact_words
from graphdoc.render import FORMATS


@pytest.mark.parametrize(
    ("words", "left"),
    [
        (["t.py", "--api-key=sesame"], ["t.py", f"--api-key={MASK}"]),
        (["t.py", "--token", "sesame", "--lr", "0.1"], ["t.py", "--token", MASK, "--lr", "0.1"]),
        (["t.py", "--hf_token", "sesame"], ["t.py", "--hf_token", MASK]),
        (["t.py", "--password", "-odd"], ["t.py", "--password", MASK]),
        (["t.py", "--password", "--lr", "1"], ["t.py", "--password", "--lr", "1"]),
        (["t.py", "wandb.api_key=sesame"], ["t.py", f"wandb.api_key={MASK}"]),
        (["t.py", "--db", "postgres://me:sesame@host/x"], ["t.py", "--db", f"postgres://{MASK}@host/x"]),
        (["t.py", "hf_abcdefghijklmnopqrstuvwxyz"], ["t.py", MASK]),
        (["t.py", "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b"], ["t.py", MASK]),
        (["t.py", "--max-tokens", "512", "--token-file", "f"], ["t.py", "--max-tokens", "512", "--token-file", "f"]),
        (["t.py", "--tokenizer", "gpt2", "--key", "loss"], ["t.py", "--tokenizer", "gpt2", "--key", "loss"]),
        (["t.py", "--out", "runs/2026-01-02_very_long_name_of_an_experiment_3"],) * 2,
        (["-m", "pkg.train", "--config", "configs/resnet50_imagenet1k_v2.yaml"],) * 2,
    ],
)
def test_arguments_that_look_like_secrets_are_hidden_and_others_are_not(words: list[str], left: list[str]) -> None:
    assert redact_words(words) == left


@pytest.mark.parametrize("name", ["API_KEY", "wandb_api_key", "GITHUB_TOKEN", "awsSecretAccessKey", "DB_PASSWORD"])
def test_names_of_secrets(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize("name", ["KEYBOARD", "TOKENIZERS_PARALLELISM", "LR", "", "monkey", "passes", "author"])
def test_other_names(name: str) -> None:
    assert not is_secret_name(name)


def test_texts_lose_secrets_and_nothing_else() -> None:
    assert redact("login failed: password='sesame', user=me") == f"login failed: password={MASK}, user=me"
    assert redact("401 for Authorization: Bearer abcdefghijklmnop.qrs") == f"401 for Authorization: Bearer {MASK}"
    assert redact("KeyError: 'sk-abcdefghijklmnopqrst1'") == f"KeyError: {MASK}"


def test_pytorchs_own_messages_stay_as_they_are() -> None:
    messages = Path(__file__).resolve().parents[1] / "graphdoc" / "messages" / "patterns.json"
    text = messages.read_text()
    for entry in json.loads(text)["patterns"] if isinstance(json.loads(text), dict) else json.loads(text):
        for value in entry.values() if isinstance(entry, dict) else ():
            if isinstance(value, str):
                assert redact(value) == value


PROGRAM = """\
import os, sys, torch
net = torch.nn.Linear(2, 1)
memory = {os.environ["TENANT"]: None}
key = os.environ["SERVICE_API_KEY"]
class Refused(RuntimeError):
    pass
y = net(torch.ones(2)).sum()
memory[os.environ["TENANT"]] = y
y.backward()
try:
    y.backward()
except RuntimeError as e:
    raise Refused(f"{e} (job of {key}, https://me:{sys.argv[3]}@host/)") from e
"""
SECRETS = ("open-sesame", "tenant-7781-x", "zugang-123", "hf_abcdefghijklmnopqrstuvwxyz")


def test_no_secret_reaches_the_evidence_or_a_report(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(PROGRAM)
    env: dict[str, Any] = {"TENANT": SECRETS[1], "SERVICE_API_KEY": SECRETS[2], "GITHUB_ACTIONS": "true"}
    env["GITHUB_STEP_SUMMARY"] = str(tmp_path / "summary.md")
    reports = [word for fmt in FORMATS for word in ("--report", f"{fmt}:r.{fmt}")]
    arguments = ["--api-key=open-sesame", "--token", "open-sesame", SECRETS[3]]
    ran = graphdoc(tmp_path, "run", "--no-rerun", *reports, "train.py", *arguments, forked=True, **env)
    assert ran.returncode == 1
    written = {f"r.{fmt}": (tmp_path / f"r.{fmt}").read_text() for fmt in FORMATS}
    written["summary"] = (tmp_path / "summary.md").read_text()
    for file in tmp_path.glob(".graphdoc/2*/*"):
        if file.name != "run.json":
            written[file.name] = file.read_text()
    written["last.json"] = (tmp_path / ".graphdoc" / "last.json").read_text()
    assert any(name.startswith("evidence") for name in written)
    assert {name: secret for name, text in written.items() for secret in SECRETS if secret in text} == {}
    assert [d["code"] for d in json.loads(written["r.json"])["diagnoses"]] == ["GD107"]
    assert [name for name in (*(f"r.{fmt}" for fmt in FORMATS), "summary") if "GD107" not in written[name]] == []
    shown = {name for name, text in written.items() if MASK in text}  # what was looked for had been there to be hidden
    assert "r.json" in shown
    assert any(name.startswith("evidence") for name in shown)
    (record,) = tmp_path.glob(".graphdoc/2*/run.json")
    assert json.loads(record.read_text())["request"]["command"] == ["train.py", *arguments]  # it has to run again
    assert record.stat().st_mode & 0o777 == 0o600
