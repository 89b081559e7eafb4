"""Hides what looks like a secret: arguments, texts and names that are written down or shown to others.

Standard library only: the capture uses it inside the user's process, before anything is written. What is a secret
cannot be known for certain, so this goes by names (``--api-key``), by well-known shapes (``ghp_…``), by the
environment of the process, and by long strings that no person has made up.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

MASK = "<hidden>"

_LAST = {
    *("token", "secret", "password", "passwd", "pwd", "passphrase", "pass", "apikey", "credential", "credentials"),
    *("auth", "authorization", "bearer", "cookie", "dsn", "pat"),
}
_KEYS = {
    *("api", "access", "private", "secret", "account", "signing", "encryption", "session", "license", "client"),
    *("service", "wandb"),
}
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_NAMED = r"[\w.-]*(?:token|secret|passw(?:or)?d|passphrase|api[_-]?key|access[_-]?key|private[_-]?key|credentials?)"
_URL = re.compile(r"(\b[A-Za-z][\w+.-]{0,20}://)(?:[^\s/@:]{0,200}:[^\s/@]{1,400}|[^\s/@:]{12,400})@")
_ASSIGNED = re.compile(rf"(?i)\b({_NAMED}[\"']?\s{{0,3}}[=:]\s{{0,3}})([\"']?)[^\s\"',;&<>]{{3,400}}\2")
_BEARER = re.compile(r"(?i)\b((?:bearer|basic)\s{1,3})[\w+/=.~-]{12,2000}")
_SHAPES = re.compile(
    r"\b(?:sk|pk|rk)[-_](?:[A-Za-z]+[-_])?[A-Za-z0-9_-]{16,200}|\bhf_[A-Za-z0-9]{20,}|\bgh[pousr]_[A-Za-z0-9]{20,}"
    r"|\bgithub_pat_\w{20,}|\bglpat-[\w-]{16,}|\bxox[abeprs]-[\w-]{10,}|\bA(?:KIA|SIA)[0-9A-Z]{16}\b"
    r"|\bAIza[\w-]{30,}|\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]{4,}|\bpypi-[\w-]{30,}"
    r"|-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----[^-]{0,10000}(?:-----END [A-Z ]{0,30}PRIVATE KEY-----)?"
)
_LONG = re.compile(r"[A-Za-z0-9_=+-]{24,}")
_CHANGE = re.compile(r"[0-9](?=[A-Za-z])|[A-Za-z](?=[0-9])")
_QUOTED = re.compile(rf"([\"']){MASK}\1")


def is_secret_name(name: str) -> bool:
    """Whether an option, a variable or a key of this name holds a secret: ``--hf-token``, not ``--max-tokens``."""
    words = [word.lower() for word in _WORD.findall(name)]
    if not words:
        return False
    return words[-1] in _LAST or (words[-1] == "key" and len(words) > 1 and words[-2] in _KEYS)


def redact_words(words: Iterable[str]) -> list[str]:
    """A command line without the values of arguments that look like secrets."""
    found: list[str] = []
    hide = False
    for word in words:
        name, equals, value = word.partition("=")
        if hide and not (word.startswith("--") and word[2:3].isalpha()):
            found.append(MASK)
        elif equals and value and is_secret_name(name):
            found.append(f"{name}={MASK}")
        else:
            found.append(redact(word))
        hide = word.startswith("-") and not equals and is_secret_name(word)
    return found


def redact(text: str, values: Iterable[str] = ()) -> str:
    """A text without ``values`` and without what has the shape of a secret or stands beside the name of one."""
    for value in values:
        if value in text:
            text = text.replace(value, MASK)
    if len(text) < 12:
        return text
    if "://" in text:
        text = _URL.sub(rf"\1{MASK}@", text)
    text = _SHAPES.sub(MASK, text)
    text = _BEARER.sub(rf"\1{MASK}", _ASSIGNED.sub(rf"\1{MASK}", text))
    text = _LONG.sub(lambda match: MASK if _random(match[0]) else match[0], text)
    return _QUOTED.sub(MASK, text)


def redact_document(evidence: Any, environment: Mapping[str, str]) -> Any:
    """An ``Evidence`` as plain data, without secrets; sources, hashes and places stay as they are."""
    values = secrets_of(environment)
    told = {v for v in environment.values() if len(v) >= 8 and "/" not in v}
    known: dict[str, str] = {}

    def text(value: str) -> str:
        if value not in known:
            known[value] = redact(value, values)
        return known[value]

    def walk(value: Any) -> Any:
        if isinstance(value, str):
            return text(value) if len(value) >= 6 else value
        if value is None or isinstance(value, int | float):
            return value
        if isinstance(value, list | tuple):
            return [walk(v) for v in value]
        if not isinstance(value, dict):
            value = vars(value)
        if "steps" in value and "path" in value:
            value = _without_keys(value, told)
        return {k: v if k in _AS_THEY_ARE else walk(v) for k, v in value.items()}

    made = walk(evidence)
    made["process"]["argv"] = redact_words(evidence.process.argv)
    made["command"] = redact_words(evidence.command)
    return made


_AS_THEY_ARE = frozenset(("sources", "hashes", "file", "function", "cwd", "op", "mode"))


def secrets_of(environment: Mapping[str, str]) -> list[str]:
    """Values of variables that hold secrets by their name or their look, the longest first."""
    found = {v for k, v in environment.items() if len(v) >= 8 and "/" not in v and (is_secret_name(k) or _random(v))}
    found |= {v for k, v in environment.items() if len(v) >= 6 and is_secret_name(k)}
    return sorted(found, key=len, reverse=True)


def _without_keys(holder: dict[str, Any], told: set[str]) -> dict[str, Any]:
    """How a tensor is reached, without keys that are values of the environment."""
    names = ("path", "base")
    found = dict(holder)
    steps = []
    for step in holder["steps"]:
        step = step if isinstance(step, dict) else vars(step)
        plain = step.get("key", "")[1:-1] if step.get("key", "")[:1] in "\"'" else step.get("key", "")
        if step.get("kind") == "key" and plain in told:
            step = {**step, "key": MASK}
            for name in names:
                found[name] = _QUOTED.sub(MASK, found[name].replace(plain, MASK))
        steps.append(step)
    found["steps"] = steps
    return found


def _random(text: str) -> bool:
    """Whether a long word looks like one that no person has made up: digits and letters change places all the time."""
    if len(text) < 24 or not _LONG.fullmatch(text):
        return False
    return len(_CHANGE.findall(text)) >= max(6, len(text) // 6)
