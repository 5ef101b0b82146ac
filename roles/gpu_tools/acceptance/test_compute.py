"""Proofs of what each GPU does alone: matrix products, and copies within its own memory."""

from __future__ import annotations

import statistics

import pytest

from nodeprep.accept.parsers.dcgmproftester import parse_gemm
from nodeprep.accept.parsers.nvbandwidth import parse_nvbandwidth
from nodeprep.accept.proof import Proof
from nodeprep.accept.session import Unknown
from nodeprep.model.profile import GpuPart

SECONDS = 15
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
    """FP16 on the tensor cores; TF32 uses the same cores at half the rate."""
    runs = parse_gemm(proof.run(GEMM, timeout_s=170))
    if runs.keys() != set(range(gpus.count)):
        raise Unknown(f"matrix products were measured on {len(runs)} of {gpus.count} GPUs")
    # The first seconds are spent at rising clocks.
    rates = {gpu: statistics.median(told[len(told) // 2 :]) for gpu, told in runs.items()}
    slowest = min(rates, key=lambda gpu: rates[gpu])
    every = ", ".join(f"GPU{gpu} {rate:.0f}" for gpu, rate in sorted(rates.items()))
    proof.measured("gpu.gemm_fp16", rates[slowest], at=f"at GPU{slowest}", read=every, action=SLOW)
    _alike(proof, "gpu.gemm_spread", rates)


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


def _alike(proof: Proof, measurement: str, rates: dict[int, float]) -> None:
    """By how many percent the slowest is below the median of its node."""
    if len(rates) < 2:
        return
    median = statistics.median(rates.values())
    slowest = min(rates, key=lambda gpu: rates[gpu])
    behind = 100 * (median - rates[slowest]) / median if median else 100.0
    proof.measured(measurement, behind, at=f"at GPU{slowest}", action=SLOW)
