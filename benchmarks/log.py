"""How long a log of 100 MB takes to read, and how much memory.

python benchmarks/log.py [MEGABYTES]
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from graphdoc.messages import read_log

FAILURE = """Traceback (most recent call last):
  File "/job/train.py", line 61, in <module>
    loss.backward()
RuntimeError: Trying to backward through the graph a second time (or directly access saved tensors after they have \
already been freed).
"""


def main() -> int:
    megabytes = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    line = "2024-01-01T00:00:00.1234567Z [rank%d]: epoch %d step %d loss=0.%d grad_norm=1.%d\n"
    block = "".join(line % (i % 4, i // 100, i, i, i) for i in range(12_000)).encode()
    with tempfile.TemporaryFile() as stream:
        while stream.tell() < megabytes * 600_000:
            stream.write(block)
        stream.write(FAILURE.encode())
        while stream.tell() < megabytes * 1_000_000:
            stream.write(block)
        stream.seek(0)
        start, processor = time.perf_counter(), time.process_time()
        found = read_log(stream)
        wall, cpu = time.perf_counter() - start, time.process_time() - processor
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{megabytes} MB, {len(found)} failure: {wall:.1f} s wall, {cpu:.1f} s of processor, {peak:.0f} MiB at most")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
