"""A stand-in for GitHub's "create a review for a pull request": takes what it takes, refuses what it refuses.

The body's schema is the operation `pulls/create-review` of GitHub's own OpenAPI description
(github/rest-api-description), the refusals are in its own words. A place is in the diff of a pull request where the
diff from the merge base, with three lines around each change, shows it.
"""

from __future__ import annotations

import json
import re
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import jsonschema

_TEXT, _LINE, _SIDE = {"type": "string"}, {"type": "integer", "minimum": 1}, {"enum": ["LEFT", "RIGHT"]}
_COMMENT = {
    "type": "object",
    "required": ["path", "body"],
    "properties": {
        "path": _TEXT,
        "body": {"type": "string", "minLength": 1, "maxLength": 65536},
        "position": _LINE,
        "line": _LINE,
        "side": _SIDE,
        "start_line": _LINE,
        "start_side": _SIDE,
    },
    "additionalProperties": False,
}
REVIEW = {
    "type": "object",
    "properties": {
        "commit_id": _TEXT,
        "body": _TEXT,
        "event": {"enum": ["APPROVE", "REQUEST_CHANGES", "COMMENT"]},
        "comments": {"type": "array", "items": _COMMENT},
    },
    "additionalProperties": False,
}
NO_WRITER = "Resource not accessible by integration"


@dataclass
class GitHub:
    """One pull request of one repository. ``writers`` are the tokens that may post, ``taken`` the reviews."""

    repository: str
    number: int
    folder: Path
    base: str
    head: str
    writers: tuple[str, ...] = ("writes",)
    taken: list[dict[str, Any]] = field(default_factory=list)
    place: str = ""

    def answer(self, path: str, token: str, body: bytes) -> tuple[int, str, list[str]]:
        """Status, message and errors for a request."""
        if path != f"/repos/{self.repository}/pulls/{self.number}/reviews":
            return 404, "Not Found", []
        if not token:
            return 401, "Requires authentication", []
        if token not in self.writers:
            return 403, NO_WRITER, []
        try:
            review = json.loads(body)
            jsonschema.validate(review, REVIEW)
        except (ValueError, jsonschema.ValidationError) as e:
            return 422, "Invalid request.", [str(e).splitlines()[0]]
        errors = [] if review.get("body") or review.get("event") == "APPROVE" else ["Body can't be blank"]
        if review.get("commit_id", self.head) != self.head:
            errors.append("Commit is not part of the pull request")
        for comment in review.get("comments", []):
            errors += self._wrong(comment)
        if errors:
            return 422, "Unprocessable Entity", errors
        self.taken.append(review)
        return 200, "", []

    def _wrong(self, comment: dict[str, Any]) -> list[str]:
        words = ["git", "diff", "-U3", f"{self.base}...{self.head}", "--", f":(top){comment['path']}"]
        text = subprocess.run(words, cwd=self.folder, capture_output=True, text=True, check=True).stdout
        hunks = [
            range(int(start), int(start) + int(count or 1))
            for start, count in re.findall(r"(?m)^@@ -\S+ \+(\d+)(?:,(\d+))? @@", text)
        ]
        hunk = next((h for h in hunks if comment.get("line") in h), None)
        if not hunks:
            return ["Path could not be resolved"]
        wrong = [] if hunk is not None else ["Pull request review thread line must be part of the diff"]
        start = comment.get("start_line")
        if start is not None and start >= comment["line"]:
            wrong.append("Pull request review thread start line must precede the end line.")
        elif start is not None and (hunk is None or start not in hunk):
            wrong.append("Pull request review thread start line must be part of the same hunk as the line.")
        return wrong


@contextmanager
def serving(github: GitHub) -> Iterator[GitHub]:
    """Serve it on this machine alone, at ``github.place``."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            scheme, _, token = self.headers.get("Authorization", "").partition(" ")
            status, message, errors = github.answer(self.path, token if scheme in ("Bearer", "token") else "", body)
            told = {"id": 1} if status == 200 else {"message": message, "errors": errors, "status": str(status)}
            self.send_response(status)
            self.send_header("Content-Type", "application/json; charset=utf-8")
            self.end_headers()
            self.wfile.write(json.dumps(told).encode())

        def log_message(self, *_: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    github.place = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield github
    finally:
        server.shutdown()
        server.server_close()
