"""The source around every place that the page speaks of, in colours, each line linked to its boxes and calls."""

from __future__ import annotations

import keyword
import math
import tokenize
import warnings
from collections.abc import Iterator, Sequence
from html import escape

from graphdoc.model import Report, Span
from graphdoc.render import story
from graphdoc.render.text import clip, flat, split_lines
from graphdoc.render.underlines import SourceLine
from graphdoc.shapes import Box, Curve, Moment, Picture

# Text and source on their way into HTML: code between backticks, and the words of Python in their colours.


def prose(text: str) -> str:
    """Escaped text in which what stands between backticks is code."""
    parts = escape(flat(text)).split("`")
    if len(parts) % 2 == 0:  # an odd backtick stays what it is
        parts[-2:] = ["`".join(parts[-2:])]
    return "".join(f"<code>{part}</code>" if i % 2 else part for i, part in enumerate(parts))


def element(tag: str, text: str) -> str:
    """The text in an element of its own."""
    return f"<{tag}>{prose(text)}</{tag}>"


# What the words of a Python source are, for the page's colours: Python's own tokenizer tells, no parser.

Word = tuple[int, int, str]
"""Of a line: the first character from 0, the last one exclusive, and ``keyword``, ``string``, ``number`` or
``comment``."""

_KINDS = {tokenize.STRING: "string", tokenize.NUMBER: "number", tokenize.COMMENT: "comment"}
_OPENS = {getattr(tokenize, name, -1) for name in ("FSTRING_START", "TSTRING_START")} - {-1}
_CLOSES = {getattr(tokenize, name, -1) for name in ("FSTRING_END", "TSTRING_END")} - {-1}
"""From Python 3.12 on a formatted string is several tokens. It is one here, as before."""


def words(lines: Sequence[str]) -> dict[int, list[Word]]:
    """The coloured words of these lines, by line from 1, in order; up to the first that is no Python."""
    found: dict[int, list[Word]] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # from 3.12 on the tokenizer warns of escapes that mean nothing
        spans = list(_spans(lines))
    for (line, column), (last, end), kind in spans:
        for number in range(line, last + 1):
            begin = column if number == line else 0
            found.setdefault(number, []).append((begin, end if number == last else len(lines[number - 1]), kind))
    return found


def _spans(lines: Sequence[str]) -> Iterator[tuple[tuple[int, int], tuple[int, int], str]]:
    # Half a surrogate raises SystemError in some releases (3.12.1, 3.13.0); what stands for it is as long.
    rest = (line.encode("utf-8", "replace").decode().replace("\0", " ") for line in lines)
    opened: list[tuple[int, int]] = []
    try:
        for token in tokenize.generate_tokens(lambda: next(rest, None) or ""):
            if token.type == tokenize.ERRORTOKEN:
                return
            if token.type in _OPENS:
                opened.append(token.start)
            elif token.type in _CLOSES:
                start = opened.pop()
                if not opened:
                    yield start, token.end, "string"
            elif not opened and token.type in _KINDS:
                yield token.start, token.end, _KINDS[token.type]
            elif not opened and token.type == tokenize.NAME and keyword.iskeyword(token.string):
                yield token.start, token.end, "keyword"
    except (tokenize.TokenError, SyntaxError, ValueError):
        return


def coloured(text: str, words: Sequence[Word], first: int = 0, last: int | None = None) -> str:
    """A part of a line as HTML, each word in a ``span`` of its kind; the words are counted in the line."""
    last = len(text) if last is None else last
    out, at = [], first
    for begin, end, kind in words:
        begin, end = max(begin, at), min(end, last)
        if begin < end:
            out += [escape(text[at:begin]), f"<span class={kind}>{escape(text[begin:end])}</span>"]
            at = end
    return "".join([*out, escape(text[at:last])])


# Places in the page: the shown lines of the source, and what points at each of them.

NEAR = 2
"""Lines shown above and below a place."""
MOST_LINES = 400
"""Lines of source in one page."""


class Places:
    """Which lines of which files a page shows, and the anchors of both ends of each link."""

    def __init__(self, report: Report) -> None:
        self._texts: dict[str, list[str]] = {f: split_lines(t) for f, t in report.sources.items()}
        self.spans: dict[tuple[str, int], list[Span]] = {}
        self.boxes: dict[tuple[str, int], list[Box]] = {}
        self.moments: dict[tuple[str, int], list[int]] = {}
        for diagnosis in report.diagnoses:
            for span in diagnosis.spans:
                self.spans.setdefault((span.file, span.line), []).append(span)
        for box in report.picture.boxes:
            self.boxes.setdefault((box.file, box.line), []).append(box)
        for number, moment in enumerate(report.picture.moments):
            self.moments.setdefault((moment.file, moment.line), []).append(number)
        places = [*self.spans, *self.boxes, *self.moments]
        self.files = [f for f in dict.fromkeys(file for file, _ in places) if f in self._texts]
        self._shown = self._windows(places)
        self._words = {f: words([f"{t}\n" for t in self._texts[f][: n[-1]]]) for f, n in self._shown.items() if n}

    def _windows(self, places: list[tuple[str, int]]) -> dict[str, list[int]]:
        shown: dict[str, set[int]] = {}
        count = 0
        for file, line in places:
            lines = self._texts.get(file, [])
            if not 0 < line <= len(lines) or count > MOST_LINES:
                continue
            here = shown.setdefault(file, set())
            count -= len(here)
            here.update(range(max(1, line - NEAR), min(len(lines), line + NEAR) + 1))
            count += len(here)
        return {file: sorted(lines) for file, lines in shown.items()}

    def shown(self, file: str) -> list[int]:
        """The lines of a file that the page shows, in order."""
        return self._shown.get(file, [])

    def text(self, file: str, line: int) -> str:
        """The text of a line; empty where it is not known."""
        lines = self._texts.get(file, [])
        return lines[line - 1] if 0 < line <= len(lines) else ""

    def words(self, file: str, line: int) -> list[Word]:
        """The words of a line that the page shows in colour."""
        return self._words.get(file, {}).get(line, [])

    def anchor(self, file: str, line: int) -> str:
        """The id of a line that the page shows; empty for one that it does not."""
        return f"s{self.files.index(file)}-{line}" if line in self._shown.get(file, ()) else ""

    def name(self, file: str, line: int) -> str:
        """``line 12``, with the file's last name where several files are shown."""
        if not line:
            return ""
        if len(self.files) < 2:
            return f"line {line}"
        return f"{flat(file.replace(chr(92), '/').rpartition('/')[2])}:{line}"


def box_id(box: Box) -> str:
    """The id of a box."""
    return f"b{box.id}"


def moment_id(number: int) -> str:
    """The id of a call in the list of calls."""
    return f"m{number}"


def hue(optimizers: tuple[tuple[int, str], ...], ident: int) -> int:
    """The number of an optimizer's colour: 1 to 6, and 0 for none."""
    order = [i for i, _ in optimizers]
    return order.index(ident) % 6 + 1 if ident in order else 0


_WIDTH = 160  # cells of a line


def source_section(places: Places) -> str:
    """The section; empty where no source is known."""
    files = [file for file in places.files if places.shown(file)]
    if not files:
        return ""
    shown = "".join(_file(file, places) for file in files)
    return f"<section id=source aria-labelledby=source-h><h2 id=source-h>The source</h2>{shown}</section>"


def _file(file: str, places: Places) -> str:
    shown = places.shown(file)
    gutter = len(str(shown[-1]))
    rows: list[str] = []
    last = 0
    for line in shown:
        if line > last + 1 and last:
            rows.append("<div class=gutter>...</div>")
        rows.append(_line(file, line, gutter, places))
        last = line
    name = escape(flat(file))
    return f"<h3><code>{name}</code></h3><div class=source>{''.join(rows)}</div>"


def _line(file: str, line: int, gutter: int, places: Places) -> str:
    spans = places.spans.get((file, line), [])
    boxes = places.boxes.get((file, line), [])
    moments = places.moments.get((file, line), [])
    names = [s.role for s in spans]
    kind = "cause" if "cause" in names else "failed" if "failed" in names else "told" if spans else ""
    links = [
        f'<a class="chip {"fatal" if b.fatal else b.state if b.kind == "operations" else b.kind}" href="#{box_id(b)}"'
        f' title="to its box in the graph">{escape(_named(b.kind, b.state))}</a>'
        for b in boxes
    ]
    links += [
        f'<a class="chip time" href="#{moment_id(n)}" title="to the list of calls">calls</a>' for n in moments[-1:]
    ]
    code = _code(places.text(file, line), spans, line, places.words(file, line))
    labels = [f"<div class='label {_role(s)}'>{prose(text)}</div>" for s, text in _labels(spans)]
    tail = f"<span class=chips>{' '.join(links)}</span>" if links else ""
    head = f'<div id="{places.anchor(file, line)}" class="line {kind}"><span class=gutter>{line:>{gutter}} | </span>'
    return "".join([f"{head}{tail}{code}</div>", *labels])


def _labels(spans: Sequence[Span]) -> list[tuple[Span, str]]:
    told = {story.label(s): s for s in spans if story.label(s)}
    return [(s, text) for text, s in told.items()]


def _role(span: Span) -> str:
    return "primary" if span.role in ("cause", "failed") else "secondary"


def _named(kind: str, state: str) -> str:
    return "graph" if kind != "operations" else f"graph: {state}"


def _code(text: str, spans: Sequence[Span], line: int, words: Sequence[Word]) -> str:
    """The line in its colours, with the places on it marked; what spans several lines is marked to its end."""
    places = sorted((max(0, s.column - 1), s.end_column - 1 if s.end_line <= line else len(text)) for s in spans)
    shown = SourceLine(text, _WIDTH, places)
    told = [(shown.index(begin), shown.index(end), kind) for begin, end, kind in words]
    out, at = [], 0
    for begin, end in places:
        first, last = max(at, shown.index(begin)), shown.index(max(begin, end))
        if last <= first:
            continue
        out += [coloured(shown.text, told, at, first), f"<mark>{coloured(shown.text, told, first, last)}</mark>"]
        at = last
    return "".join([*out, coloured(shown.text, told, at)])


# A number of the run by step, as a small inline SVG plot.

_WIDE, _HIGH = 560, 200
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 16, 14, 34
_MOST_TICKS = 6
STEEP = 50.0
"""The largest value is this many times the smallest: powers of ten stand at the same distance then."""


def plots(curves: tuple[Curve, ...]) -> str:
    """The section with all curves; empty without any."""
    if not curves:
        return ""
    drawn = "".join(
        f"<figure>{_plot(i, c)}<figcaption>{escape(_said(c))}</figcaption></figure>" for i, c in enumerate(curves)
    )
    head = "<section id=curves aria-labelledby=curves-h><h2 id=curves-h>How it grew</h2>"
    return f"{head}<div class=plots>{drawn}</div></section>"


def _said(curve: Curve) -> str:
    first, last = curve.points[0], curve.points[-1]
    text = f"{flat(curve.title)}: {first[1]:.4g} at backward #{first[0] + 1}, {last[1]:.4g} at #{last[0] + 1}"
    return f"{text}; no longer finite at #{curve.marked}" if curve.marked > last[0] + 1 else text


def _plot(number: int, curve: Curve) -> str:
    calls = [call + 1 for call, _ in curve.points]
    values = [value for _, value in curve.points]
    positive = [v for v in values if v > 0]
    steep = len(positive) == len(values) and max(values) > STEEP * min(values)
    scaled = [math.log10(v) for v in values] if steep else values
    low, high = (math.floor(min(scaled)), math.ceil(max(scaled))) if steep else (min(0.0, min(scaled)), max(scaled))
    high = high if high > low else low + 1
    last = max(calls[-1], curve.marked)

    def x(call: float) -> float:
        return _LEFT + (call - calls[0]) / max(last - calls[0], 1) * (_WIDE - _LEFT - _RIGHT)

    def y(value: float) -> float:
        return _HIGH - _BOTTOM - (value - low) / (high - low) * (_HIGH - _TOP - _BOTTOM)

    parts = [
        f'<svg class=plot viewBox="0 0 {_WIDE} {_HIGH}" role=img aria-labelledby="plot{number}-t plot{number}-d">'
        f"<title id=plot{number}-t>{escape(flat(curve.title))}</title>"
        f"<desc id=plot{number}-d>{escape(_said(curve))}</desc>"
    ]
    for tick in _ticks(low, high, whole=steep):
        text = f"1e{tick:.0f}" if steep else f"{tick:.3g}"
        parts.append(
            f'<path class=grid d="M{_LEFT} {y(tick):.1f}H{_WIDE - _RIGHT}"/>'
            f'<text class=tick x="{_LEFT - 8}" y="{y(tick) + 4:.1f}" text-anchor=end>{text}</text>'
        )
    for call in _ticks(calls[0], last, whole=True):
        parts.append(
            f'<text class=tick x="{x(call):.1f}" y="{_HIGH - _BOTTOM + 18}" text-anchor=middle>{call:.0f}</text>'
        )
    if curve.marked > calls[-1]:
        parts.append(f'<path class=wrong d="M{x(curve.marked):.1f} {_TOP}V{_HIGH - _BOTTOM}"/>')
    points = " ".join(f"{x(c):.1f},{y(v):.1f}" for c, v in zip(calls, scaled, strict=True))
    parts.append(f'<polyline class=curve points="{points}"/>')
    if len(calls) <= 40:
        parts += [
            f'<circle class=curve cx="{x(c):.1f}" cy="{y(v):.1f}" r="3"/>' for c, v in zip(calls, scaled, strict=True)
        ]
    parts.append(
        f'<text class=tick x="{(_LEFT + _WIDE - _RIGHT) / 2}" y="{_HIGH - 2}" text-anchor=middle>backward call</text>'
    )
    return "".join([*parts, "</svg>"])


def _ticks(low: float, high: float, whole: bool) -> list[float]:
    """At most six round numbers from ``low`` to ``high``."""
    step = 10 ** math.floor(math.log10(max(high - low, 1e-300)))
    step = max(step, 1.0) if whole else step
    for factor in (0.5, 1, 2, 5, 10, 20):
        size = step * factor
        if whole and size != int(size):
            continue
        first, last = math.ceil(low / size), math.floor(high / size)
        if last - first < _MOST_TICKS:
            return [n * size for n in range(first, last + 1)]
    return [low, high]


# The calls of the run as a table with a lane for each kind: forwards, backward calls, steps, writes.

_LANES = ("forward", "backward", "step", "other")
_LANE_OF = {"forward": 0, "backward": 1, "grad": 1, "step": 2}
_LONGEST = 90


def timeline(picture: Picture, places: Places) -> str:
    """The section; empty where no call was recorded."""
    if not picture.moments:
        return ""
    lanes = "".join(f"<th scope=col class=lane>{name}</th>" for name in _LANES)
    rows = [_row(number, moment, picture, places) for number, moment in enumerate(picture.moments)]
    before = ""
    if picture.before:
        told = ", ".join(f"{count} \u00d7 <code>{escape(flat(kind))}</code>" for kind, count in picture.before)
        before = f"<p>Before these calls: {told}.</p>"
    return (
        "<section id=calls aria-labelledby=calls-h><h2 id=calls-h>The calls of the run</h2>"
        f"{before}<div class=scroll tabindex=0 role=region aria-label='The calls as a table'><table class=calls>"
        f"<thead><tr>{lanes}<th scope=col>call</th><th scope=col>iteration</th><th scope=col>place</th>"
        f"<th scope=col>code</th></tr></thead><tbody>{''.join(rows)}</tbody></table></div></section>"
    )


def _row(number: int, moment: Moment, picture: Picture, places: Places) -> str:
    if moment.kind == "gap":
        return f"<tr class=gap><td colspan=8>{moment.skipped} calls are not in the journal</td></tr>"
    lane = _LANE_OF.get(moment.kind, 3)
    color = f" o{hue(picture.optimizers, moment.optimizer)}" if moment.optimizer >= 0 else ""
    dot = f"<td class=lane><span class='dot{color}' aria-hidden=true></span></td>"
    cells = "".join(dot if i == lane else "<td class=lane></td>" for i in range(len(_LANES)))
    anchor = places.anchor(moment.file, moment.line)
    place = escape(places.name(moment.file, moment.line))
    linked = f'<a href="#{anchor}">{place}</a>' if anchor else place
    code = escape(clip(flat(places.text(moment.file, moment.line)), _LONGEST))
    code = f"<code>{code}</code>" if code else ""
    name = "failed" if moment.failed else moment.kind if moment.kind in _LANE_OF else "other"
    return (
        f'<tr id="{moment_id(number)}" class="{name}">{cells}<td>{_told(moment, picture)}</td>'
        f"<td>{moment.iteration if moment.iteration >= 0 else ''}</td><td>{linked}</td>"
        f"<td>{code}</td></tr>"
    )


def _told(moment: Moment, picture: Picture) -> str:
    if moment.kind == "forward":
        return f"{moment.made:,} operation{'s' if moment.made != 1 else ''} recorded"
    told = moment.kind + (f" #{moment.number}" if moment.number > 0 else "")
    name = dict(picture.optimizers).get(moment.optimizer, "")
    parts = [escape(flat(told)), f"<code>{escape(flat(name))}</code>" if name else "", prose(moment.text)]
    return " ".join(part for part in [*parts, "<strong>fails</strong>" if moment.failed else ""] if part)
