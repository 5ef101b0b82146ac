"""Proofs of what shows only while the GPUs work: the PCIe link's speed, and slowdowns."""

from __future__ import annotations

import pytest

from nodeprep.accept.parsers.smi import HARDWARE_REASONS, GpuHealth, parse_smi_samples
from nodeprep.accept.proof import Proof
from nodeprep.accept.session import Unknown
from nodeprep.model.profile import GpuPart

# nvidia-smi looks while all GPUs work, and once more for runs that end before it got to look.
WATCHED = """\
all_reduce_perf -b 1G -e 1G -n 400 -c 0 -g {count} >/dev/null 2>&1 & load=$!
while kill -0 $load 2>/dev/null; do nvidia-smi -q -x; sleep 0.5; done
wait $load && nvidia-smi -q -x
"""
LEAST_CLOCK = 0.8  # of the SMs' highest clock; a GPU that nothing holds back runs at the top
Samples = tuple[tuple[GpuHealth, ...], ...]


@pytest.fixture
def samples(proof: Proof, gpus: GpuPart) -> Samples:
    text = proof.run(WATCHED.format(count=gpus.count), timeout_s=110, once=True)
    found = parse_smi_samples(text)
    if any(len(sample) != gpus.count for sample in found):
        raise Unknown("not every GPU answered under load", action="look at gpu.answer and gpu.xid")
    return found


@pytest.mark.proof("gpu.pcie_under_load", timeout_s=120)
def test_pcie_links_train_up(proof: Proof, gpus: GpuPart, samples: Samples) -> None:
    best = {slot: _best(slot, samples) for slot in range(gpus.count)}
    read = ", ".join(
        f"{samples[0][slot].bus} Gen{gen} x{width}" for slot, (gen, width) in best.items()
    )
    proof.holds(
        all(gen >= gpus.pcie_gen and width >= gpus.pcie_width for gen, width in best.values()),
        wanted=f"Gen{gpus.pcie_gen} x{gpus.pcie_width} while it works",
        read=read,
        source="the profile",
        action="reseat the GPU or its riser; check the slot's setting in the BIOS; then RMA",
    )


@pytest.mark.proof("gpu.throttle_under_load", timeout_s=120)
def test_hardware_slows_no_gpu_down(proof: Proof, gpus: GpuPart, samples: Samples) -> None:
    bad: dict[str, set[str]] = {}
    for gpu in (gpu for sample in samples for gpu in sample):
        if gpu.reasons is None:
            raise Unknown(f"nvidia-smi does not tell why {gpu.bus} is slow")
        if active := set(gpu.reasons) & set(HARDWARE_REASONS):
            bad.setdefault(gpu.bus, set()).update(active)
    proof.holds(
        not bad,
        wanted="no hardware slowdown while it works",
        read=", ".join(f"{bus} {'+'.join(sorted(why))}" for bus, why in sorted(bad.items()))
        or f"none in {len(samples)} looks",
        action="check power and cooling; then reseat or RMA",
    )


@pytest.mark.proof("gpu.clocks_under_load", timeout_s=120)
def test_clocks_go_up(proof: Proof, gpus: GpuPart, samples: Samples) -> None:
    best: dict[str, tuple[int, int]] = {}
    for slot in range(gpus.count):
        told = [(sample[slot].sm_clock, sample[slot].sm_clock_max) for sample in samples]
        known = [(now, most) for now, most in told if now is not None and most]
        if not known:
            raise Unknown(f"nvidia-smi does not tell the clocks of {samples[0][slot].bus}")
        best[samples[0][slot].bus] = max(known)
    proof.holds(
        all(now >= LEAST_CLOCK * most for now, most in best.values()),
        wanted=f"at least {LEAST_CLOCK:.0%} of the highest SM clock while it works",
        read=", ".join(f"{bus} {now} of {most} MHz" for bus, (now, most) in best.items()),
        action="nvidia-smi -rgc (clocks were locked?); else look at gpu.throttle_under_load and "
        "gpu.power_limit",
    )


def _best(slot: int, samples: Samples) -> tuple[int, int]:
    """Generation and width of the best look: the link rests between kernels."""
    seen = [(sample[slot].pcie_gen, sample[slot].pcie_width) for sample in samples]
    told = [(gen, width) for gen, width in seen if gen is not None and width is not None]
    if not told:
        raise Unknown(f"nvidia-smi does not tell the PCIe link of {samples[0][slot].bus}")
    return max(told)
