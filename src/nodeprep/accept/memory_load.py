"""Runs on the node, by its own Python: all its CPUs copy memory, and tell how fast they were.

One process a CPU, pinned, with two buffers of its own that no cache holds, filled on its own NUMA
node; what copies is the C library's memcpy. Stdlib only, Python 3.8. Prints

    memory GB/s     read and written, by all together
    clock  MHz …    the least and the median of all CPUs, half-way through
"""

import mmap
import os
import statistics
import sys
import time

SIZE = 64 << 20  # bytes: with the other buffer and all other CPUs', many times the last cache


def main(seconds: float) -> int:
    cpus = sorted(os.sched_getaffinity(0))
    begin = time.time() + 1 + len(cpus) / 50  # when all have their buffers
    pipes = [_started(cpu, begin, begin + seconds) for cpu in cpus]
    time.sleep(max(0.0, begin + seconds / 2 - time.time()))
    clocks = _clocks()
    copies = [int(os.fdopen(pipe).read() or 0) for pipe in pipes]
    if 0 in copies:
        print("%d CPUs copied nothing" % copies.count(0), file=sys.stderr)
        return 1
    print("memory %.2f" % (2 * SIZE * sum(copies) / seconds / 1e9))
    if clocks:
        print("clock %.0f %.0f" % (min(clocks), statistics.median(clocks)))
    return 0


def _started(cpu: int, begin: float, end: float) -> int:
    out, into = os.pipe()
    if os.fork():
        os.close(into)
        return out
    copies = 0
    try:
        os.sched_setaffinity(0, [cpu])
        source, target = mmap.mmap(-1, SIZE), memoryview(mmap.mmap(-1, SIZE))
        source.write(b"\1" * SIZE)  # a page that was never written is no memory
        whole = memoryview(source)
        target[:] = whole
        time.sleep(max(0.0, begin - time.time()))
        while time.time() < end:
            target[:] = whole
            copies += 1
    finally:
        os.write(into, b"%d" % copies)
        os._exit(0)


def _clocks() -> "list[float]":
    try:
        with open("/proc/cpuinfo") as file:
            return [float(line.split(":")[1]) for line in file if line.startswith("cpu MHz")]
    except (OSError, ValueError):
        return []


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1])))
