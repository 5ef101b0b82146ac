"""`fio --output-format=json`: what each job read and wrote."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from nodeprep.accept.parsers.iperf3 import load_json
from nodeprep.accept.parsers.text import ParseError

TOOL = "fio"


@dataclass(frozen=True)
class Direction:
    """Bytes per second and operations per second."""

    bytes_per_second: float
    iops: float
    total_bytes: float


@dataclass(frozen=True)
class FioJob:
    name: str
    read: Direction
    write: Direction


def parse_fio(text: str) -> tuple[FioJob, ...]:
    """ParseError when there is no job, when a job failed, or moved no bytes at all."""
    jobs = load_json(text, TOOL).get("jobs")
    if not isinstance(jobs, list) or not jobs:
        raise ParseError(TOOL, "no jobs")
    return tuple(_job(job) for job in jobs)


def _job(job: Any) -> FioJob:
    if not isinstance(job, dict):
        raise ParseError(TOOL, "a job that is not an object")
    name = str(job.get("jobname", ""))
    if job.get("error") != 0:
        raise ParseError(TOOL, f"job {name!r} ended with error {job.get('error')!r}")
    found = FioJob(name, _direction(job, "read"), _direction(job, "write"))
    if found.read.total_bytes + found.write.total_bytes <= 0:
        raise ParseError(TOOL, f"job {name!r} moved no bytes")
    return found


def _direction(job: dict[str, Any], key: str) -> Direction:
    part = job.get(key)
    if not isinstance(part, dict):
        raise ParseError(TOOL, f"a job without `{key}`")
    # fio 2 counts `bw` in KiB/s and has no `bw_bytes`.
    rate = _figure(part.get("bw_bytes"))
    if rate is None:
        kib = _figure(part.get("bw"))
        rate = None if kib is None else kib * 1024
    iops, total = _figure(part.get("iops")), _figure(part.get("io_bytes"))
    if rate is None or iops is None or total is None:
        raise ParseError(TOOL, f"`{key}` without bw, iops or io_bytes")
    return Direction(rate, iops, total)


def _figure(value: Any) -> float | None:
    good = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e18
    return float(value) if good else None
