"""A log of 100 MB in under 200 MB of memory, in a process of its own (benchmarks/log.py tells the time)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from logs import traceback

pytestmark = pytest.mark.slow

# Not ru_maxrss: across exec it keeps the peak of the process that forked, here that of the tests.
READ = r"""
import json, re, sys
from graphdoc.messages import read_log
with open(sys.argv[1], "rb") as stream:
    found = read_log(stream)
with open("/proc/self/status") as stream:
    peak = int(re.search(r"VmHWM:\s*(\d+) kB", stream.read())[1]) // 1024
print(json.dumps([peak, [[f.match.id if f.match else "", f.ranks, f.line] for f in found]]))
"""


@pytest.mark.parametrize("bars", [False, True], ids=["lines", "progress bars"])
def test_a_hundred_megabytes(tmp_path: Path, bars: bool) -> None:
    path = tmp_path / "job.log"
    line = "2024-01-01T00:00:00.1234567Z [rank%d]: epoch %d step %d loss=0.%d grad_norm=1.%d tokens/s=%d\n"
    if bars:
        line = "\r\x1b[32m rank%d %d%%|###   | %d/9000 [00:01<00:02, 3.4it/s, loss=0.%d, %d %d]\x1b[0m"
    block = "".join(line % (i % 4, i // 100, i, i, i, i) for i in range(12_000)).encode() + b"\n"
    failed = b"".join(f"[rank{rank}]: {text}\n".encode() for text in traceback().splitlines() for rank in range(4))
    with path.open("wb") as stream:
        while stream.tell() < 60_000_000:
            stream.write(block)
        stream.write(failed)
        while stream.tell() < 100_000_000:
            stream.write(block)
    done = subprocess.run([sys.executable, "-c", READ, str(path)], capture_output=True, text=True, check=True)
    megabytes, found = json.loads(done.stdout)
    assert [(ident, ranks) for ident, ranks, _ in found] == [("inplace-version-mismatch-anomaly", [0, 1, 2, 3])]
    assert megabytes < 200
