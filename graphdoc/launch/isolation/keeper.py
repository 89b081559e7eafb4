"""Starts a program that graphdoc runs by itself, stays above it, and ends with all that came of it.

Run as ``python -I -S keeper.py JSON`` with the program's environment, or called in a fork of an interpreter that is to
become the program (see ``server.py``). It ends when the program does, when it is asked to (SIGTERM), and when whoever
started it is gone.

A program that is ended before its end (it has shown enough, its time is up, the user has had enough) and is kept apart
ends at once, without its ``finally`` and ``atexit``: what they would save, release or upload is thrown away with the
layers, nobody sees it, and their work would be waited for and stand in the trace as the program's own. In the user's
real files (``open``) they do matter: a checkpoint half written, a lock left behind. There the program is ended as by
Ctrl-C, and has a few seconds for them. Standard library only.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time

UNAVAILABLE = 125
"""The exit status that says: this way of isolation cannot be had here; the reason stands in the file ``refused``."""
_PDEATHSIG, _SUBREAPER = 1, 36
GRACE = 0.5
"""Seconds that processes have to end before they are killed."""
LAST_DEEDS = 5.0
"""Seconds that a program in the user's real files has for what it does on Ctrl-C."""

program = 0
is_first = False
is_open = False
scratch = ""


def main() -> None:
    keep(json.loads(sys.argv[1]))


def keep(given: dict) -> None:  # type: ignore[type-arg]
    """Stand above one program. Returns in the program alone, and only where it has no ``words`` to start it by."""
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    namespaces = given["way"] == "namespaces"
    if namespaces:
        # Opened now: later it would be written into a layer.
        with open(os.path.join(given["out"], "refused"), "w") as told:
            try:
                _apart(given)
            except Exception as e:
                told.write(str(e))
                told.flush()
                os._exit(UNAVAILABLE)
            # The program itself, which is to go on: the file is closed, with nothing in it.
    else:
        global scratch, is_open
        scratch, is_open = given["scratch"], given["way"] == "open"
        _tie(given["parent"], signal.SIGTERM)
        if sys.platform.startswith("linux"):
            from namespaces import hold_signals  # type: ignore[import-not-found]

            _start(given, hold_signals)
        else:
            _start(given, lambda: None)


def _apart(given: dict) -> None:  # type: ignore[type-arg]
    """The program behind layers of its own, with process numbers of its own where the system allows that as well."""
    import layers  # type: ignore[import-not-found]
    import namespaces as ns

    processes = given["processes"]
    if not processes and not ns.can_hold_signals():
        raise ns.Refused("no process numbers of its own")
    own = ns.separate(processes)
    # Taking on a namespace's powers forgets the signal for the parent's death (prctl(2)), so it is set afterwards.
    _tie(given["parent"], signal.SIGTERM)

    def enter() -> None:
        layers.cover(given["scratch"], given["out"], given["cwd"], processes, own)
        os.chdir(given["cwd"])  # by its name: the folder that we stood in lies below the layer

    def give_up() -> None:
        ns.give_up_powers()
        if not processes:
            ns.hold_signals()
        if not given["words"]:
            ns.drop_powers()

    if not processes:
        enter()
        _start(given, give_up)
        return
    reading, writing = os.pipe()
    first = os.fork()
    if first == 0:
        # Number 1 of the new processes: when it ends, the kernel ends all the others.
        os.close(reading)
        _tie(0, signal.SIGKILL)
        above = select.poll()
        above.register(writing, 0)
        if above.poll(0):
            os._exit(1)  # nobody reads: it ended before it could be tied to
        try:
            enter()
        except Exception as e:
            os.write(writing, str(e).encode()[:1000])
            os._exit(UNAVAILABLE)
        os.close(writing)
        _start(given, give_up)
        return
    os.close(writing)
    _watch(first, first=True)
    trouble = b""
    while part := os.read(reading, 1000):
        trouble += part
    status = _wait(first)
    if trouble:
        raise RuntimeError(trouble.decode(errors="replace"))
    os._exit(status)


def _tie(parent: int, number: int) -> None:
    """Get this signal when the parent ends; ``parent`` is its number, 0 where that cannot be seen."""
    if not sys.platform.startswith("linux"):
        return
    import ctypes

    libc = ctypes.CDLL(None)
    libc.prctl(_PDEATHSIG, int(number), 0, 0, 0)
    libc.prctl(_SUBREAPER, 1, 0, 0, 0)  # whatever loses its parent becomes our child
    if parent and os.getppid() != parent:
        os._exit(1)


def _start(given: dict, before: object) -> None:  # type: ignore[type-arg]
    """Start the program, wait for it, end what it left, and end with its exit status; see ``keep`` for a return."""
    own = os.getpid()
    child = os.fork()
    if child == 0:
        try:
            os.setsid()
            _tie(own, signal.SIGKILL)
            if not given["processes"]:
                os.environ["GRAPHDOC_KEEPER"] = str(own)  # for the start-up hook: who descends from it is the run's
            before()  # type: ignore[operator]
            os.chdir(given["cwd"])
            if not given["words"]:
                return
            if is_open:
                signal.signal(signal.SIGINT, signal.SIG_DFL)  # ignored below `nohup` and in a shell's background
            os.execvp(given["words"][0], given["words"])
        except BaseException as e:
            os.write(2, f"{(given['words'] or ['python'])[0]}: {e}\n".encode(errors="replace"))
            os._exit(127)
    _watch(child)
    status = _wait(child, given["parent"])
    _end_all()
    os._exit(status)


def _watch(child: int, first: bool = False) -> None:
    """From now on a request to end is one to end the program. ``first``: the child is number 1 of other processes."""
    global program, is_first
    program, is_first = child, first
    signal.signal(signal.SIGTERM, lambda *_: _stop())
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)


def _stop() -> None:
    if os.getpid() == 1:
        os._exit(1)
    if is_first:
        # The kernel ends all below it before it can be waited for; /proc shows this process nothing of them.
        try:
            os.kill(program, signal.SIGKILL)
            os.waitpid(program, 0)
        except (OSError, ChildProcessError):
            pass
        os._exit(1)
    if is_open:
        _interrupt()
    _end_all()
    if scratch:
        # Copies of the user's files may lie there; whoever would have removed it may have been killed.
        import shutil

        shutil.rmtree(scratch, ignore_errors=True)
    os._exit(1)


def _interrupt() -> None:
    """Let the program end as on Ctrl-C, if it does so in time."""
    limit = time.monotonic() + LAST_DEEDS
    try:
        os.kill(program, signal.SIGINT)
        while not os.waitpid(program, os.WNOHANG)[0] and time.monotonic() < limit:
            time.sleep(0.01)
    except (OSError, ChildProcessError):
        pass


def _wait(child: int, parent: int = 0) -> int:
    """The child's exit status, 128 + n after signal n; other children that end meanwhile are laid to rest."""
    # Where the kernel tells nothing of the parent's end, look.
    look = bool(parent) and not sys.platform.startswith("linux")
    while True:
        pid, status = os.waitpid(-1, os.WNOHANG if look else 0)
        if pid == child:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code
        if look and not pid:
            if os.getppid() != parent:
                _stop()
            time.sleep(0.05)


def _end_all() -> None:
    """End every process below this one: asked first, then killed. As number 1, ending ourselves does it."""
    if os.getpid() == 1:
        return
    asked = False
    limit = time.monotonic() + GRACE
    for _ in range(1000):
        below = descendants(os.getpid())
        if not below:
            return
        kill = time.monotonic() > limit
        for pid in below:
            if kill or not asked:
                try:
                    os.kill(pid, signal.SIGKILL if kill else signal.SIGTERM)
                except OSError:
                    pass
        asked = True
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(0.01)


def descendants(root: int) -> list[int]:
    """The processes that descend from this one, deepest last; sessions and groups do not matter."""
    children: dict[int, list[int]] = {}
    try:
        numbers = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        numbers = []
    if not numbers:
        return _below_by_ps(root)
    for pid in numbers:
        try:
            with open(f"/proc/{pid}/stat", "rb") as stream:
                # The name stands in parentheses and may hold anything (proc_pid_stat(5)).
                state, parent = stream.read().rpartition(b")")[2].split()[:2]
        except OSError:
            continue
        if state != b"Z":
            children.setdefault(int(parent), []).append(pid)
        else:
            children.setdefault(int(parent), [])
    return _collect(root, children)


def _below_by_ps(root: int) -> list[int]:
    import subprocess

    listing = subprocess.run(["ps", "-axo", "pid=,ppid="], capture_output=True, check=False).stdout
    children: dict[int, list[int]] = {}
    for line in listing.splitlines():
        pid, parent = (int(word) for word in line.split()[:2])
        children.setdefault(parent, []).append(pid)
    return _collect(root, children)


def _collect(root: int, children: dict[int, list[int]]) -> list[int]:
    found: list[int] = []
    waiting = [root]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += below
    return found


if __name__ == "__main__":
    main()
