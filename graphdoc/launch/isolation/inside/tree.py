"""Two trees that look like one: the user's files, which are only read, and a scratch folder with all that was written.

A path that was removed has a mark; below it nothing of the user's is seen any more, whatever is made there later. All
processes of a run share the scratch folder, so they see each other's files.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from typing import Any

_open, _close, _read, _write = os.open, os.close, os.read, os.write
_lstat, _stat, _readlink, _mkdir, _symlink = os.lstat, os.stat, os.readlink, os.mkdir, os.symlink
_listdir, _utime, _chmod, _access = os.listdir, os.utime, os.chmod, os.access
_MOST_LINKS = 40


class Tree:
    """The two trees, by absolute paths. ``scratch`` and ``out`` themselves are used as they are."""

    def __init__(self, scratch: str, out: str) -> None:
        self.scratch = os.path.realpath(scratch)
        self.out = os.path.realpath(out)
        self.upper_root = os.path.join(self.scratch, "files")
        self.marks = os.path.join(self.scratch, "gone")
        self.ports = os.path.join(self.scratch, "ports")
        for folder in (self.upper_root, self.marks, self.ports):
            os.makedirs(folder, exist_ok=True)
        self.cwd = os.getcwd().removeprefix(self.upper_root)

    def own(self, path: str) -> bool:
        """Whether a real path is ours to write."""
        return any(path == root or path.startswith(root + "/") for root in (self.scratch, self.out))

    def upper(self, place: str) -> str:
        return self.upper_root + place

    def place(self, path: Any, follow: bool = True) -> str:
        """The absolute path that is meant, with the links on the way followed, as both trees have them."""
        text = os.fsdecode(path)
        if text.startswith(self.upper_root + "/"):
            text = text[len(self.upper_root) :]
        waiting = [part for part in os.path.join(self.cwd, text).split("/") if part not in ("", ".")][::-1]
        found = ""
        links = 0
        while waiting:
            part = waiting.pop()
            if part == "..":
                found = found.rpartition("/")[0]
                continue
            step = f"{found}/{part}"
            target = self._link(step) if waiting or follow else None
            if target is None:
                found = step
                continue
            links += 1
            if links > _MOST_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), text)
            waiting += [p for p in target.split("/") if p not in ("", ".")][::-1]
            if target.startswith("/"):
                found = ""
        return found or "/"

    def _link(self, place: str) -> str | None:
        if self.own(place):
            return None
        try:
            return _readlink(self.reading(place))
        except OSError:
            return None

    def marked(self, place: str) -> bool:
        """Whether the user's file at this place is out of sight."""
        while place not in ("", "/"):
            if self._exists(self._mark(place)):
                return True
            place = place.rpartition("/")[0]
        return False

    def _mark(self, place: str) -> str:
        return os.path.join(self.marks, hashlib.sha1(os.fsencode(place)).hexdigest())

    @staticmethod
    def _exists(path: str) -> bool:
        try:
            _lstat(path)
        except OSError:
            return False
        return True

    def reading(self, place: str) -> str:
        """The real path to read a place from; one that does not exist where there is nothing."""
        if self.own(place):
            return place
        upper = self.upper(place)
        return upper if self._exists(upper) or self.marked(place) else place

    def exists(self, place: str) -> bool:
        return self._exists(self.reading(place))

    def untouched(self, folder: str) -> bool:
        """Whether nothing has been written in this folder or removed anywhere."""
        return self.own(folder) or not (self._exists(self.upper(folder)) or _listdir(self.marks))

    def names(self, folder: str) -> list[str]:
        """The names in a folder, of both trees.

        Raises:
            OSError: it is no folder, or cannot be read.
        """
        real = self.reading(folder)
        names = _listdir(real)
        if self.own(folder) or real == folder:
            return [n for n in names if not self._exists(self._mark(_join(folder, n)))]
        if not self.marked(folder) and self._exists(folder):
            lower = [n for n in _listdir(folder) if not self._exists(self._mark(_join(folder, n)))]
            names += [n for n in lower if n not in set(names)]
        return names

    def for_writing(self, path: Any, *, replaced: bool = False, follow: bool = True) -> str:
        """The real path to write to: the user's file is copied first, unless it is to be ``replaced`` altogether.

        Raises:
            OSError: as the system would, for what is not the user's to write.
        """
        place = self.place(path, follow)
        if self.own(place) or self._is_device(place):
            return place
        if place.startswith(("/proc/", "/sys/")):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), os.fsdecode(path))
        upper = self.upper(place)
        if self._exists(upper):
            return upper
        self._folders(place.rpartition("/")[0])
        if self.marked(place) or not self._exists(place):
            return upper
        about = _lstat(place)
        if stat.S_ISLNK(about.st_mode):
            _symlink(_readlink(place), upper)
        elif stat.S_ISDIR(about.st_mode):
            self._folders(place)
        else:
            if not _access(place, os.W_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), os.fsdecode(path))
            if not replaced:
                _copy(place, upper, about)
        return upper

    def _is_device(self, place: str) -> bool:
        try:
            mode = _stat(place).st_mode
        except OSError:
            return False
        return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))

    def _folders(self, folder: str) -> None:
        """Make the folders above in the scratch folder, as far as they are there."""
        if folder in ("", "/") or self._exists(self.upper(folder)) or not self.exists(folder):
            return
        self._folders(folder.rpartition("/")[0])
        real = self.reading(folder)
        if stat.S_ISDIR(_stat(real).st_mode):
            try:
                _mkdir(self.upper(folder), stat.S_IMODE(_stat(real).st_mode) | 0o700)
            except FileExistsError:
                pass

    def hide(self, place: str) -> None:
        """Put the user's file at this place out of sight."""
        if self._exists(place) and not self._exists(self._mark(place)):
            _close(_open(self._mark(place), os.O_CREAT | os.O_WRONLY, 0o600))

    def copy_all(self, place: str) -> None:
        """Bring a whole tree into the scratch folder, to be renamed there."""
        self.for_writing(place, follow=False)
        real = self.reading(place)
        if stat.S_ISDIR(_lstat(real).st_mode):
            for name in self.names(place):
                self.copy_all(_join(place, name))

    def shown(self, error: OSError) -> OSError:
        """The error as the program would see it without us: with its own names."""
        for name in ("filename", "filename2"):
            value = getattr(error, name, None)
            if isinstance(value, str) and value.startswith(self.upper_root):
                setattr(error, name, value[len(self.upper_root) :])
        return error


def _join(folder: str, name: str) -> str:
    return f"{folder.rstrip('/')}/{name}"


def _copy(source: str, target: str, about: os.stat_result) -> None:
    reading = _open(source, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
    try:
        writing = _open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, stat.S_IMODE(about.st_mode) | 0o600)
        try:
            while part := _read(reading, 1 << 20):
                while part:
                    part = part[_write(writing, part) :]
        finally:
            _close(writing)
    finally:
        _close(reading)
    _chmod(target, stat.S_IMODE(about.st_mode))
    _utime(target, ns=(about.st_atime_ns, about.st_mtime_ns))


def path_meant(path: Any, dir_fd: int | None = None) -> Any:
    """The path as the program means it, where it is given beside an open folder."""
    text = os.fspath(path)
    if dir_fd is None or os.path.isabs(text):
        return text
    real = os.path.realpath(f"/proc/self/fd/{dir_fd}")
    return os.path.join(real, os.fsdecode(text))
