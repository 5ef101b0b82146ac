"""One collective of nccl-tests over all GPUs of the node, measured and judged, for proofs."""

from __future__ import annotations

from typing import NamedTuple

from nodeprep.accept.job import Level
from nodeprep.accept.parsers.nccl_tests import NcclTest, parse_nccl_test
from nodeprep.accept.proof import Proof
from nodeprep.accept.session import Unknown
from nodeprep.model.profile import GpuPart

BIG = 512 << 20  # bytes; smaller messages measure latency
SLOW = "look at gpu.board, gpu.nvlink, gpu.p2p and the clocks; then reset, reseat, RMA"


class Sizes(NamedTuple):
    """Messages from `low` to `high`, each twice the last; as nccl-tests takes them."""

    low: str
    high: str


QUICK = Sizes("512M", "4G")
SWEEP = Sizes("1K", "8G")


def sizes(level: Level) -> Sizes:
    """Large messages alone prove basic performance; all sizes show where a curve bends."""
    return QUICK if level == "poc" else SWEEP


def run(proof: Proof, tool: str, gpus: GpuPart, over: Sizes, timeout_s: float) -> str:
    """What `tool` prints, with NCCL's own log in it. Proofs that ask the same share one run."""
    command = [tool, "-b", over.low, "-e", over.high, "-f", "2", "-g", str(gpus.count)]
    # It ends with 1 when values were wrong; the table tells which.
    env = {"NCCL_DEBUG": "INFO"}
    return proof.run(command, env=env, timeout_s=timeout_s, accept=(0, 1), once=True)


def whole_table(text: str, tool: str, gpus: GpuPart) -> NcclTest:
    """Unknown unless the run came to its end, over all GPUs."""
    found = parse_nccl_test(text)
    if len(found.devices) != gpus.count:
        raise Unknown(f"{tool} used {len(found.devices)} of {gpus.count} GPUs")
    if found.out_of_bounds is None:
        raise Unknown(f"{tool} did not run to its end")
    return found


def judge_speed(proof: Proof, measurement: str, table: NcclTest) -> None:
    """The median of large messages against the gate; the whole curve is kept."""
    big = (row for row in table.rows if row.size >= BIG)
    rows = ", ".join(f"{row.size >> 20} MiB {row.out_of_place.busbw:g}" for row in big)
    proof.measured(measurement, table.busbw(BIG), read=f"median; {rows}", action=SLOW)
    proof.attach(curve=table.curve())


def judge_values(proof: Proof, wrong: int | None) -> None:
    """Every value must be right; values that were not checked are unknown."""
    if wrong is None:
        raise Unknown(
            "validation was off (#wrong N/A): correctness was not measured",
            action="run it without -c 0, or build nccl-tests anew",
        )
    proof.equals("wrong values", wrong, 0, action="reset the GPUs; then find the one to RMA")
