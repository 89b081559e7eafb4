"""A stand-in for the runner of GitHub Actions: what its documentation promises a composite action, and no more.

https://docs.github.com/en/actions/reference/workflows-and-actions has the contexts, the expressions, the files behind
GITHUB_OUTPUT, GITHUB_ENV, GITHUB_PATH and GITHUB_STEP_SUMMARY, and how `shell: bash` is started.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

_TOKEN = re.compile(r"\s*('(?:[^']|'')*'|&&|\|\||==|!=|[!().]|[\w*-]+)")
_HOLE = re.compile(r"\$\{\{(.*?)\}\}", re.DOTALL)


@dataclass
class Done:
    """What a job has of an action that it used: whether it failed, its outputs, the log and the job's summary; and what
    each action that a step uses itself was given."""

    failed: bool = False
    outputs: dict[str, str] = field(default_factory=dict)
    log: str = ""
    summary: str = ""
    ran: list[str] = field(default_factory=list)
    used: dict[str, dict[str, str]] = field(default_factory=dict)


def use(
    action: Path,
    inputs: Mapping[str, str],
    *,
    workspace: Path,
    temp: Path,
    github: Mapping[str, Any],
    variables: Mapping[str, str],
) -> Done:
    """Run a composite action (`uses:`) in a checkout, with the job's ``github`` context and its variables."""
    document = yaml.safe_load((action / "action.yml").read_text())
    assert document["runs"]["using"] == "composite" and set(inputs) <= set(document["inputs"])
    contexts: dict[str, Any] = {"github": dict(github), "inputs": {}, "steps": {}}
    for name, told in document["inputs"].items():
        assert name in inputs or not told.get("required"), name
        contexts["inputs"][name] = inputs.get(name, filled(str(told.get("default", "")), contexts))
    environment = {**os.environ, **variables, "CI": "true", "GITHUB_ACTIONS": "true", "RUNNER_TEMP": str(temp)}
    environment |= {"GITHUB_ACTION_PATH": str(action), "GITHUB_WORKSPACE": str(workspace)}
    done = Done()
    for number, step in enumerate(document["runs"]["steps"]):
        if holds(step.get("if", "success()"), contexts, done.failed):
            done.ran.append(step["name"])
            if "uses" in step:
                done.used[step["uses"]] = {k: filled(str(v), contexts) for k, v in step["with"].items()}
                continue
            contexts["steps"][step.get("id", f"__{number}")] = {
                "outputs": _run(step, contexts, environment, temp, done)
            }
    done.outputs = {name: filled(told["value"], contexts) for name, told in document["outputs"].items()}
    return done


def _run(
    step: dict[str, Any], contexts: dict[str, Any], environment: dict[str, str], temp: Path, done: Done
) -> dict[str, str]:
    assert step["shell"] == "bash"
    files = {name: temp / f"{name}-{len(done.ran)}" for name in ("OUTPUT", "ENV", "PATH", "STEP_SUMMARY")}
    for file in files.values():
        file.touch()
    script = temp / f"step-{len(done.ran)}.sh"
    script.write_text(filled(step["run"], contexts))
    told = {name: filled(str(value), contexts) for name, value in step.get("env", {}).items()}
    place = Path(environment["GITHUB_WORKSPACE"], filled(step.get("working-directory", "."), contexts))
    made = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)],
        cwd=place,
        env={**environment, **told, **{f"GITHUB_{name}": str(file) for name, file in files.items()}},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=400,
    )
    done.log += made.stdout
    done.summary += files["STEP_SUMMARY"].read_text()
    done.failed |= made.returncode != 0
    environment |= pairs(files["ENV"].read_text())
    environment["PATH"] = os.pathsep.join([*reversed(files["PATH"].read_text().splitlines()), environment["PATH"]])
    return pairs(files["OUTPUT"].read_text())


def pairs(text: str) -> dict[str, str]:
    """``name=value`` lines, and ``name<<END`` with the lines as far as ``END``."""
    found: dict[str, str] = {}
    lines = iter(text.splitlines())
    for line in lines:
        name, mark, end = line.partition("<<")
        if mark and "=" not in name:
            found[name] = "\n".join(iter(lambda: next(lines), end))
        else:
            name, equals, value = line.partition("=")
            assert equals, f"Invalid format '{line}'"
            found[name] = value
    return found


def filled(text: str, contexts: Mapping[str, Any]) -> str:
    """The text with the values of its expressions."""
    return _HOLE.sub(lambda hole: _text(_value(hole[1], contexts, False)), text)


def holds(condition: str, contexts: Mapping[str, Any], failed: bool) -> bool:
    """Whether a step runs: one that asks for no status runs only where nothing has failed."""
    condition = _HOLE.sub(lambda hole: hole[1], condition)
    if not re.search(r"\b(success|failure|always|cancelled)\(", condition):
        condition = f"success() && ({condition})"
    return bool(_value(condition, contexts, failed))


def _value(text: str, contexts: Mapping[str, Any], failed: bool) -> Any:
    tokens = _TOKEN.findall(text)
    assert "".join(tokens) == re.sub(r"\s+(?=(?:[^']*'[^']*')*[^']*$)", "", text), f"not understood: {text}"
    statuses = {"always": True, "success": not failed, "failure": failed, "cancelled": False}

    def either() -> Any:
        value = both()
        while tokens and tokens[0] == "||":
            tokens.pop(0)
            other = both()
            value = value or other
        return value

    def both() -> Any:
        value = compared()
        while tokens and tokens[0] == "&&":
            tokens.pop(0)
            other = compared()
            value = value and other
        return value

    def compared() -> Any:
        value = single()
        if tokens and tokens[0] in ("==", "!="):
            equal = tokens.pop(0) == "=="
            return (_same(value) == _same(single())) is equal
        return value

    def single() -> Any:
        token = tokens.pop(0)
        if token == "!":
            return not single()
        if token == "(":
            value = either()
            assert tokens.pop(0) == ")"
            return value
        if token.startswith("'"):
            return token[1:-1].replace("''", "'")
        if tokens and tokens[0] == "(":
            assert tokens.pop(0) == "(" and tokens.pop(0) == ")", "a function of the status takes nothing"
            return statuses[token]
        if token in ("true", "false", "null"):
            return {"true": True, "false": False, "null": None}[token]
        value = contexts[token]
        while tokens and tokens[0] == ".":
            tokens.pop(0)
            key = tokens.pop(0)
            value = value.get(key) if isinstance(value, Mapping) else None
        return value

    found = either()
    assert not tokens, f"not understood: {text}"
    return found


def _same(value: Any) -> Any:
    """What is compared: texts without regard to case, nothing as an empty text."""
    return value.lower() if isinstance(value, str) else "" if value is None else value


def _text(value: Any) -> str:
    return (
        {True: "true", False: "false", None: ""}[value]
        if value is None or value is True or value is False
        else str(value)
    )
