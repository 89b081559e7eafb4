"""What the evidence of a second run takes over from the first, which was looked at less closely and not changed."""

from __future__ import annotations

from graphdoc.evidence import SO_FAR, THINNED, Event, Evidence, Sign, Stale


def take_over(first: Evidence, second: Evidence, mode: str) -> Evidence:
    """The second run's, which was one in this mode, with what the first one's calls reached and the versions of what
    was overwritten."""
    second.probe = second.probe or mode
    _remember_reach(first.events, second.events)
    _remember_versions(first.stale, second.stale)
    return second


def add_later(first: Evidence, second: Evidence, whole: bool) -> None:
    """The signs of the first run and what they speak of, which a second one that was ended early has not come to; and
    of that one only what the first had no means to see: a later step may contradict what was so until then. What both
    tell is told as the first saw it, which nothing held up; so is what was not finite."""
    told = [_told(s) for s in first.signs]
    seen = [s for s in second.signs if s.kind != "nonfinite" and (whole or SO_FAR not in s.facts)]
    second.signs = [s for s in seen if _told(s) not in told]
    second.signs += [s for s in first.signs if s.kind != THINNED]
    second.sources = {**first.sources, **second.sources}
    ids, names = {o.id for o in second.optimizers}, {p.name for p in second.parameters}
    second.optimizers += [o for o in first.optimizers if o.id not in ids]
    second.parameters += [p for p in first.parameters if p.name not in names]


def _told(sign: Sign) -> tuple[object, ...]:
    """What a sign is about; what else it names, the other call and its leaves, is what was seen of it."""
    at = [(f.file, f.line, f.column) for f in sign.stack]
    return sign.kind, sign.optimizer, sign.parameters, sign.facts.keys() - {SO_FAR}, at


def take_look(first: Evidence, second: Evidence, mode: str) -> bool:
    """Put what the second run, one in this mode, saw of the first bad value into the first one's sign; whether
    it saw anything."""
    sign, look = nonfinite(first.signs), look_of(second.signs)
    if sign is None or look is None:
        return False
    sign.facts["look"] = look
    first.sources = {**second.sources, **first.sources}
    first.hashes = {**second.hashes, **first.hashes}
    first.packages += [p for p in second.packages if p.name not in {q.name for q in first.packages}]
    first.probe = mode
    return True


def nonfinite(signs: list[Sign]) -> Sign | None:
    """The sign of values that are not finite, if there is one."""
    return next((s for s in signs if s.kind == "nonfinite"), None)


def look_of(signs: list[Sign]) -> object:
    """What a second run saw of the first bad value; None where it saw nothing."""
    sign = nonfinite(signs)
    return sign.facts.get("look") if sign is not None else None


def _remember_reach(first: list[Event], second: list[Event]) -> None:
    """What the calls of the first run reached, where the second, which looks at more, has looked at fewer calls."""
    if [(e.index, e.kind) for e in first] != [(e.index, e.kind) for e in second]:
        return
    for old, new in zip(first, second, strict=True):
        new.reaches = new.reaches or old.reaches


def _remember_versions(first: list[Stale], second: list[Stale]) -> None:
    """The versions of the first run, which are those of PyTorch's message: in the second, which keeps more, a counter
    may have begun elsewhere."""
    for old, new in zip(first, second, strict=False):
        moved = old.expected - new.expected
        if (old.attribute, old.tensor.name) != (new.attribute, new.tensor.name) or old.current - new.current != moved:
            return
        new.expected, new.current = old.expected, old.current
        for write in new.writes:
            write.version += moved if write.version >= 0 else 0
