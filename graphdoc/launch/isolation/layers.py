"""Layers in memory over every place that can be written: what goes there is gone with them.

Loaded by the keeper, in a process that has left the user's namespaces: standard library only, Linux only.
"""

from __future__ import annotations

import ctypes
import os
import stat

from namespaces import Refused, call, raise_loopback  # type: ignore[import-not-found]

# From linux/mount.h.
_RDONLY, _NOSUID, _NODEV, _NOEXEC, _REMOUNT, _BIND, _REC, _PRIVATE = 1, 2, 4, 8, 32, 4096, 16384, 1 << 18
_RELATIME = 1 << 21

_KERNELS = frozenset(
    ("proc", "sysfs", "cgroup", "cgroup2", "devpts", "securityfs", "debugfs", "tracefs", "bpf", "mqueue", "autofs")
    + ("configfs", "pstore", "efivarfs", "fusectl", "hugetlbfs", "binfmt_misc", "rpc_pipefs", "nsfs", "selinuxfs")
    + ("smackfs", "ramfs", "fuse.lxcfs")
)
"""File systems that show the kernel, or that a layer cannot cover: made read-only where that is possible."""


def _mount(source: str | None, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    def text(value: str | None) -> bytes | None:
        return os.fsencode(value) if value is not None else None

    call("mount", text(source), text(target), text(kind), ctypes.c_ulong(flags), text(data))


def cover(scratch: str, out: str, cwd: str, processes: bool, own: list[str]) -> None:
    """Cover every place that can be written with a layer in memory, except ``out``; raise the loopback interface.

    ``scratch`` is an empty folder for the layers, ``cwd`` where the program works. Where a layer is refused (a file
    system that cannot be below one, a folder into which something is mounted), the place becomes read-only.

    Raises:
        Refused: a place would stay writable.
    """
    try:
        points = _mount_points()
        _mount(None, "/", None, _REC | _PRIVATE)
        _mount("tmpfs", scratch, "tmpfs", _NOSUID | _NODEV, f"mode=700,size={_most()}")
        # By a handle: the layer over the folder in which it lies will hide its name.
        hold = os.open(scratch, os.O_PATH | os.O_DIRECTORY)
        scratch = f"/proc/self/fd/{hold}"
        _check_layers(scratch)
        # Bound aside while its mount can still be written: a copy made later would be read-only with it.
        aside = os.path.join(scratch, "out")
        os.mkdir(aside)
        _mount(out, aside, None, _BIND)
        result = os.open(aside, os.O_PATH | os.O_DIRECTORY)
        cover = _Cover(points, scratch)
        others = [] if os.geteuid() == 0 else _below_others(cwd)
        cover.tree("/")
        for folder, handle in others:
            cover.layers += 1
            _overlay(folder, scratch, f"l{cover.layers}", handle)
            os.close(handle)
        _mount(f"/proc/self/fd/{result}", out, None, _BIND)
        os.close(result)
        os.close(hold)
        if processes:
            _mount("proc", "/proc", "proc", _NOSUID | _NODEV | _NOEXEC)
        raise_loopback(own)
    except OSError as e:
        raise Refused(f"no layers over the file system ({e.strerror})") from e


def _most() -> int:
    """Bytes of memory that all layers may take: half of what is free. A program that writes more gets ENOSPC."""
    free = 1 << 30
    try:
        with open("/proc/meminfo") as stream:
            for line in stream:
                if line.startswith("MemAvailable:"):
                    free = int(line.split()[1]) * 1024
    except OSError:
        pass
    return max(free // 2, 1 << 26)


def _mount_points() -> dict[str, str]:
    """The file system at each mount point, by path (proc_pid_mountinfo(5)); of several at one point, the uppermost."""
    found: dict[str, str] = {}
    with open("/proc/self/mountinfo", "rb") as stream:
        for line in stream:
            words = line.split()
            path = os.fsdecode(words[4])
            for code, letter in ((r"\040", " "), (r"\011", "\t"), (r"\012", "\n"), (r"\134", "\\")):
                path = path.replace(code, letter)
            found[path] = words[words.index(b"-") + 1].decode()
    return found


def _check_layers(scratch: str) -> None:
    """A folder that was removed and made again must be empty: that needs extended attributes (tmpfs since Linux 6.6).

    Raises:
        OSError: it is not so here.
    """
    lower = os.path.join(scratch, "try")
    os.makedirs(os.path.join(lower, "folder", "old"))
    _overlay(lower, scratch, "tried")
    os.rmdir(os.path.join(lower, "folder", "old"))
    os.rmdir(os.path.join(lower, "folder"))
    os.mkdir(os.path.join(lower, "folder"))


def _mapped(path: str) -> bool:
    """Whether a layer can hold a copy: its owner and group are ours, the only ones that an ordinary user may map."""
    about = os.lstat(path)
    return about.st_uid == os.geteuid() and about.st_gid == os.getegid()


def _below_others(cwd: str) -> list[tuple[str, int]]:
    """The innermost folder of somebody else above home and above ``cwd``, each with a handle on it as it is.

    It cannot be copied into a layer for what is written below it; the root of a layer of its own need not be.

    Raises:
        Refused: there are files of another group where the program works.
    """
    found: dict[str, int] = {}
    for place in (os.path.expanduser("~"), os.path.realpath(cwd)):
        folder = place
        while folder != "/" and not os.path.ismount(folder):
            if os.path.isdir(folder) and not _mapped(folder):
                if os.path.dirname(folder) != "/" and folder not in found:
                    found[folder] = os.open(folder, os.O_PATH | os.O_DIRECTORY)
                break
            folder = os.path.dirname(folder)
    _check_owners(cwd)
    return list(found.items())


def _check_owners(cwd: str) -> None:
    """Files of another group that the program may write cannot be copied into a layer (EOVERFLOW).

    Raises:
        Refused: there are some where the program works, two folders deep.
    """
    waiting = [(cwd, 0)]
    seen = 0
    while waiting and seen < 5000:
        folder, depth = waiting.pop()
        try:
            entries = list(os.scandir(folder))
        except OSError:
            continue
        for entry in entries:
            seen += 1
            if not entry.is_symlink() and not _mapped(entry.path) and os.access(entry.path, os.W_OK):
                raise Refused("files of other owners")
            if depth < 2 and entry.is_dir(follow_symlinks=False):
                waiting.append((entry.path, depth + 1))


def _overlay(folder: str, scratch: str, name: str, handle: int = -1) -> None:
    """Mount a layer over a folder (as ``handle`` has it, if given), whose root keeps mode and owner."""
    upper, work = os.path.join(scratch, name, "u"), os.path.join(scratch, name, "w")
    os.makedirs(upper)
    os.mkdir(work)
    about = os.stat(folder)
    mode = stat.S_IMODE(about.st_mode)
    try:
        os.chown(upper, about.st_uid, about.st_gid)
    except OSError:
        if not os.access(folder, os.W_OK):
            mode &= ~0o222  # the layer's root is ours, which the folder is not
    os.chmod(upper, mode)
    lower = (
        f"/proc/self/fd/{handle}"
        if handle >= 0
        else folder.replace("\\", "\\\\").replace(",", "\\,").replace(":", "\\:")
    )
    data = f"lowerdir={lower},upperdir={upper},workdir={work},userxattr"
    _mount("overlay", folder, "overlay", _flags(folder) & ~_RDONLY, data)


def _flags(path: str) -> int:
    """The mount flags in force at a path. A less privileged namespace may add to them and take none away."""
    flags = os.statvfs(path).f_flag
    kept = flags & (_RDONLY | _NOSUID | _NODEV | _NOEXEC | 1024 | 2048)
    return kept | (_RELATIME if flags & 4096 else 0)


class _Cover:
    """Covers a tree. Overlayfs refuses a folder below which something is mounted (it would uncover what is hidden
    there), so such a folder is made read-only and what lies in it is covered piece by piece.
    """

    def __init__(self, points: dict[str, str], scratch: str) -> None:
        self.points = points
        self.scratch = scratch
        self.layers = 0

    def tree(self, folder: str) -> None:
        kind = self.points.get(folder, "")
        if folder in ("/proc", "/sys") or kind in _KERNELS:
            for point in [p for p in self.points if p == folder or p.startswith(folder + "/")]:
                self._read_only(point, must=False)
            return
        if not self._holds_mounts(folder) and folder != "/dev":
            self._layer(folder)
            return
        try:
            entries = list(os.scandir(folder))
        except PermissionError:
            entries = []  # nobody here can go below it
        for entry in entries:
            path = entry.path
            if entry.is_symlink():
                continue
            if entry.is_dir(follow_symlinks=False):
                if folder != "/dev" or path in self.points:
                    self.tree(path)
            elif path in self.points and entry.is_file(follow_symlinks=False):
                self._read_only(path)
        if folder in self.points:
            self._read_only(folder)
        # A folder that is no mount point itself is read-only with the mount that it lies in, which comes last.

    def _holds_mounts(self, folder: str) -> bool:
        within = folder.rstrip("/") + "/"
        return any(p.startswith(within) for p in self.points)

    def _layer(self, folder: str) -> None:
        try:
            if os.statvfs(folder).f_flag & _RDONLY:
                return
            self.layers += 1
            _overlay(folder, self.scratch, f"l{self.layers}")
        except OSError:
            if folder in self.points:
                self._read_only(folder)

    def _read_only(self, point: str, must: bool = True) -> None:
        try:
            flags = _flags(point)
            if not flags & _RDONLY:
                _mount(None, point, None, _REMOUNT | _BIND | _RDONLY | flags)
        except FileNotFoundError:
            pass  # hidden below another mount
        except OSError:
            if must and os.access(point, os.W_OK):
                raise
