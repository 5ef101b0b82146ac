"""Proofs of what each GPU does alone: matrix products, and copies within its own memory."""

from __future__ import annotations

import inspect
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence

import pytest

from nodeprep.accept import matrix_load
from nodeprep.accept.job import Level
from nodeprep.accept.parsers.dcgmproftester import parse_gemm
from nodeprep.accept.parsers.matrix_load import Round, parse_rounds
from nodeprep.accept.parsers.nvbandwidth import parse_nvbandwidth
from nodeprep.accept.proof import Proof
from nodeprep.accept.session import Unknown
from nodeprep.model.profile import GpuPart, Profile

SECONDS = 15
ROUNDS = 6
LOAD_S = {"stress": 15, "burnin": 300}  # at the gate's rate
LOAD_TIME = {"stress": 180, "burnin": 900}
LOCAL_COPY = "device_local_copy"
SLOW = (
    "look at gpu.clocks_under_load, gpu.throttle_under_load and gpu.power_limit of that GPU; swap "
    "it with a sister to tell the GPU from its slot; then RMA"
)
# Of the releases that DCGM brings, the one for CUDA 12 runs on every driver from 525 on. All GPUs
# at once: then the power supply and the fans are under the load that training is.
GEMM = (
    "for t in dcgmproftester12 dcgmproftester13 dcgmproftester11; do command -v $t >/dev/null &&"
    f" exec $t --no-dcgm-validation -t 1004 -d {SECONDS}; done;"
    " echo dcgmproftester is missing >&2; exit 127"
)


@pytest.mark.proof("gpu.gemm_fp16", level="stress", timeout_s=180)
def test_every_gpu_multiplies_fast_enough_and_alike(proof: Proof, gpus: GpuPart) -> None:
    """FP16 on the tensor cores."""
    runs = parse_gemm(proof.run(GEMM, timeout_s=170))
    _on_every_gpu(runs, gpus)
    _fast_enough(proof, "gpu.gemm_fp16", runs)


@pytest.fixture
def rounds(
    proof: Proof, gpus: GpuPart, profile: Profile, level: Level
) -> dict[int, tuple[Round, ...]]:
    """Products in TF32, on all GPUs at once; both proofs share one run."""
    gate = profile.gates.get("gpu.gemm_tf32")
    if gate is None:
        raise Unknown("no gate gpu.gemm_tf32: the profile says not how much work a second is")
    products = int(LOAD_S[level] / ROUNDS * gate.fail * 1e12 / matrix_load.OPERATIONS)
    script = inspect.getsource(matrix_load)
    command = ["python3", "-c", script, *map(str, (gpus.count, ROUNDS, products))]
    found = parse_rounds(proof.run(command, timeout_s=LOAD_TIME[level] - 10, once=True))
    _on_every_gpu(found, gpus)
    return found


@pytest.mark.proof("gpu.gemm_tf32", level="stress", timeout_s=LOAD_TIME)
def test_every_gpu_multiplies_in_tf32(proof: Proof, rounds: dict[int, tuple[Round, ...]]) -> None:
    """What PyTorch and JAX compute in when a model says float32."""
    runs = {gpu: tuple(one.tflops for one in told) for gpu, told in rounds.items()}
    _fast_enough(proof, "gpu.gemm_tf32", runs)


@pytest.mark.proof("gpu.gemm_results", level="stress", timeout_s=LOAD_TIME)
def test_every_gpu_computes_the_same(proof: Proof, rounds: dict[int, tuple[Round, ...]]) -> None:
    """The same products, bit for bit: no ECC and no XID tells of cores that compute wrongly."""
    results = Counter(one.result for told in rounds.values() for one in told)
    right, agreeing = results.most_common(1)[0]
    wrong = {gpu: sum(one.result != right for one in told) for gpu, told in rounds.items()}
    told = ", ".join(f"{n} of {len(rounds[gpu])} on GPU{gpu}" for gpu, n in wrong.items() if n)
    total = results.total()
    proof.holds(
        agreeing == total if total > 1 else None,
        wanted="the same result in all rounds of all GPUs",
        read=f"{agreeing} of {total} rounds agree",
        reason=f"other results in rounds: {told}"
        + ("" if 2 * agreeing > total else "; no result is that of most, so any may be right"),
        source="cuBLAS gives the same bits for the same product on GPUs of one kind",
        action="do not let it train: run it again (nodeprep accept --level burnin); then RMA",
    )


@pytest.mark.proof("gpu.memory_bandwidth", level="stress", timeout_s=180)
def test_every_gpu_copies_fast_enough_and_alike(proof: Proof, gpus: GpuPart) -> None:
    """Bytes that were copied: each was read once and written once."""
    text = proof.run(["nvbandwidth", "-t", LOCAL_COPY], timeout_s=170)
    found = parse_nvbandwidth(text).get(LOCAL_COPY)
    if found is None or len(found.cells) != gpus.count:
        measured = 0 if found is None else len(found.cells)
        raise Unknown(f"nvbandwidth measured the memory of {measured} of {gpus.count} GPUs")
    rates = {gpu: rate for (_, gpu), rate in found.cells.items()}
    slowest = min(rates, key=lambda gpu: rates[gpu])
    proof.measured("gpu.memory_bandwidth", rates[slowest], at=f"at GPU{slowest}", action=SLOW)
    proof.attach(matrix=found.matrix())
    _alike(proof, "gpu.memory_spread", rates)


def _on_every_gpu(found: Mapping[int, object], gpus: GpuPart) -> None:
    if found.keys() != set(range(gpus.count)):
        raise Unknown(f"matrix products were measured on {len(found)} of {gpus.count} GPUs")


def _fast_enough(proof: Proof, measurement: str, runs: Mapping[int, Sequence[float]]) -> None:
    """The slowest GPU by the gate, and against its sisters. `runs`: TFLOPS over time, by GPU."""
    # The first seconds are spent at rising clocks.
    rates = {gpu: statistics.median(told[len(told) // 2 :]) for gpu, told in runs.items()}
    slowest = min(rates, key=lambda gpu: rates[gpu])
    every = ", ".join(f"GPU{gpu} {rate:.0f}" for gpu, rate in sorted(rates.items()))
    proof.measured(measurement, rates[slowest], at=f"at GPU{slowest}", read=every, action=SLOW)
    _alike(proof, "gpu.gemm_spread", rates)


def _alike(proof: Proof, measurement: str, rates: dict[int, float]) -> None:
    """By how many percent the slowest is below the median of its node."""
    if len(rates) < 2:
        return
    median = statistics.median(rates.values())
    slowest = min(rates, key=lambda gpu: rates[gpu])
    behind = 100 * (median - rates[slowest]) / median if median else 100.0
    proof.measured(measurement, behind, at=f"at GPU{slowest}", action=SLOW)
