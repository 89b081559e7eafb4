"""The page of a cause, or what a pasted message or a log says: ``graphdoc explain`` once its words are read."""

from __future__ import annotations

import io
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from graphdoc.cli.output import put, say
from graphdoc.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphdoc.causes.base import Entry
    from graphdoc.messages import Failure

_CODE = re.compile(r"GD[\w-]{0,2}\d{1,4}\w{0,2}", re.IGNORECASE)
_SLUG = re.compile(r"[a-z]+(?:-[a-z]+){1,8}")
_PATH = re.compile(r"[^\n]{0,400}(?:\.(?:log|txt|out|err|gz|md|json|stderr|stdout)|[/\\][\w.-]{1,200})")


def explain(target: str | None, fmt: str = "text") -> int:
    """Print the explanation on stdout; returns 0, or 1 where the text holds no message about autograd.

    Raises:
        UsageError: there is no such cause, file or format.
    """
    if fmt not in ("text", "json", "markdown"):
        from graphdoc.cli.output import check_format

        check_format(fmt)
    if target is None:
        if sys.stdin.isatty():
            raise UsageError("explain what: a code (GD101), a log file, a message, or - for standard input")
        target = "-"
    if target == "-":
        return _log(sys.stdin.buffer, "standard input", fmt)
    word = target.strip()
    if _CODE.fullmatch(word) or _SLUG.fullmatch(word.lower()):
        from graphdoc.causes import all_causes, entry

        cause = entry(word)
        if cause is not None:
            return _page(cause, fmt)
        from difflib import get_close_matches

        codes = [] if word[2:].isdigit() else [c.code for c in all_causes()]
        close = get_close_matches(word.upper(), codes, 1, 0.7)
        close = close or get_close_matches(word.lower(), [c.slug for c in all_causes()], 1, 0.8)
        meant = f"did you mean {close[0]}? " if close else ""
        if close or _CODE.fullmatch(word):
            raise UsageError(f"there is no cause {word}; {meant}`graphdoc causes` lists them all")
    return _text(target, fmt)


def _text(target: str, fmt: str) -> int:
    """A file's name or a message: a name of a file that exists is one, and so is what can only be meant as one."""
    try:
        path = Path(target)
        if "\n" not in target and path.exists():
            if path.is_dir():
                raise UsageError(f"{target} is a folder; name the log file in it")
            with path.open("rb") as stream:
                return _log(_plain(stream), target, fmt)
    except OSError as e:
        if e.errno not in (None, 36, 63):  # a pasted message is often too long for a file's name
            raise UsageError(f"cannot read {target[:200]}: {e.strerror}") from e
    except ValueError:
        pass  # a NUL in the text: no file has such a name
    short = target.strip()
    if _PATH.fullmatch(short) and ": " not in short and short.count(" ") < 4:
        raise UsageError(f"there is no file {short}")
    pasted = io.BufferedReader(io.BytesIO(target.encode("utf-8", "replace")))
    return _log(pasted, "the text", fmt)


def _plain(stream: BinaryIO) -> BinaryIO:
    """The stream, unpacked where it is a gzip file: CI keeps its logs so."""
    if stream.read(2) == b"\x1f\x8b":
        import gzip

        stream.seek(0)
        return gzip.GzipFile(fileobj=stream)  # type: ignore[return-value]
    stream.seek(0)
    return stream


def _page(cause: Entry, fmt: str) -> int:
    from graphdoc.causes.catalogue import as_json, page_as_markdown

    if fmt == "json":
        from graphdoc.render.json import document

        put(document(as_json([cause])[0]), sys.stdout)
        return 0
    if fmt not in ("text", "markdown"):
        raise UsageError(f"a page has the formats text, json and markdown, not {fmt}")
    text = page_as_markdown(cause)
    if fmt == "text" and sys.stdout is not None and sys.stdout.isatty() and "NO_COLOR" not in os.environ:
        from rich.console import Console
        from rich.markdown import Markdown

        Console().print(Markdown(text))
    else:
        put(text, sys.stdout)
    return 0


def _log(stream: BinaryIO, name: str, fmt: str) -> int:
    from graphdoc.cli.logs import as_text, merged, tell, together
    from graphdoc.messages import read_log
    from graphdoc.messages.flat_text import clean

    own = _report_for_machines(stream)
    if own:
        say(f"{clean(name)[:200]} is a report of graphdoc's own: it tells {own}, and this is the page of that")
        return explain(own, fmt)
    try:
        failures = read_log(stream)
    except (OSError, EOFError) as e:
        raise UsageError(f"cannot read {name[:200]}: {e}") from e
    told = tell(failures, Path.cwd())
    if not told:
        say(f"{clean(name)[:200]} holds no message about autograd that graphdoc knows{_other(failures)}")
        return 1
    harmless = all(one.failure.match and one.failure.match.kind == "warning" for one in told)
    other = _other([f for f in failures if f.match is None and f.type]) if harmless else ""
    if other:
        say(f"{clean(name)[:200]} holds warnings{other}")
    if fmt in ("text", "markdown"):
        from graphdoc.render.options import terminal_options

        width, color = terminal_options(sys.stdout)
        put(as_text(told, fmt, width, color), sys.stdout, styled=color)
    elif fmt == "json":
        from graphdoc.render.json import document

        put(document(together(told)), sys.stdout)
    else:
        from graphdoc.cli.output import show

        show(merged(told), fmt, sys.stdout)
    return 0


def _report_for_machines(stream: BinaryIO) -> str:
    """The code that a report in a format of one document (JSON, SARIF, HTML …) tells; others are read as a log."""
    from graphdoc.render import HEAD, is_report

    if not hasattr(stream, "peek"):
        return ""
    try:
        head = stream.peek(HEAD)[:HEAD].decode("utf-8", "replace")
    except (OSError, EOFError):  # reading it as a log says so
        return ""
    code = re.search(r"GD\d{3}", head)
    return code[0] if code is not None and head[:1] in ("{", "[", "<") and is_report(head) else ""


def _other(failures: Sequence[Failure]) -> str:
    last = next((f for f in reversed(failures) if f.type or f.truncated), None)
    if last is None:
        return ""
    place = f" at {last.place.file}:{last.place.line}" if last.place else ""
    if last.truncated:
        return f"; it breaks off inside a traceback{place}"
    return f"; it ends with {last.type}{place}, which is none of autograd's"
