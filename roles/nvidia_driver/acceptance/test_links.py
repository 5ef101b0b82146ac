"""Proofs of what joins the GPUs: the board is the one that was rented, and no link is down."""

from __future__ import annotations

import pytest

from nodeprep.accept.parsers.nvlink import GpuLinks, parse_nvlink, parse_nvlink_errors
from nodeprep.accept.parsers.topology import Matrix, detect_board, parse_p2p, parse_topology
from nodeprep.accept.proof import Proof
from nodeprep.model.profile import GpuPart

LINKED = ("mesh", "nvswitch")  # boards on which every pair of GPUs is joined by NVLink
UNLINKED = ("pcie", "none")
P2P = {"r": "reads", "w": "writes", "a": "atomics"}  # as `topo -p2p` calls them
RESEAT = "reset the GPUs; check the NVLink bridges or the fabric manager; then reseat or RMA"


@pytest.mark.proof("gpu.board", timeout_s=60)
def test_the_board_is_the_one_rented(proof: Proof, gpus: GpuPart) -> None:
    topology = parse_topology(proof.run(["nvidia-smi", "topo", "-m"], once=True))
    proof.equals("GPUs in the topology", len(topology.gpus), gpus.count, source="the profile")
    board = detect_board(topology)
    proof.holds(
        board == gpus.board,
        wanted=f"a {gpus.board} board, {gpus.nvlink or 'no NVLink'}",
        read=f"{board}: {_words(topology)}",
        source="the profile",
        action=f"if the links are whole, another board was delivered; else {RESEAT}",
    )
    short = [
        f"GPU{a}-GPU{b} {topology.cells[a, b]}"
        for a, b in topology.pairs()
        if a < b and topology.cells[a, b] != gpus.nvlink
        and (gpus.board in LINKED or topology.links(a, b))
    ]  # fmt: skip
    proof.holds(
        not short,
        wanted=f"{gpus.nvlink or 'no NVLink'} between joined GPUs",
        read=", ".join(short) or _words(topology),
        source="the profile",
        action=RESEAT,
    )


@pytest.mark.proof("gpu.p2p", timeout_s=90)
def test_gpus_reach_each_others_memory(proof: Proof, gpus: GpuPart) -> None:
    if gpus.board in UNLINKED:
        proof.not_applicable(
            "GPUs without NVLink may speak through the host",
            profile="parts.gpus.board", values=UNLINKED,
        )  # fmt: skip
    topology = parse_topology(proof.run(["nvidia-smi", "topo", "-m"], once=True))
    for letter, what in P2P.items():
        status = parse_p2p(proof.run(["nvidia-smi", "topo", "-p2p", letter]))
        proof.equals("GPUs in the P2P matrix", len(status.gpus), gpus.count, source="the profile")
        bad = {pair: word for pair, word in status.cells.items() if word != "OK"}
        joined = {pair: word for pair, word in bad.items() if _joined(topology, gpus, *pair)}
        proof.holds(
            not joined,
            wanted=f"P2P {what} OK between joined GPUs",
            read=", ".join(f"{what}: GPU{a} to GPU{b} {word}" for (a, b), word in joined.items())
            or f"{what} OK for {len(status.cells) - len(bad)} pairs",
            action="check ACS and the IOMMU (iommu=pt), the driver, and the fabric manager",
        )
        if bad and not joined:
            proof.note(f"P2P {what}: {len(bad)} pairs without a bridge speak through the host")


@pytest.mark.proof("gpu.nvlink", timeout_s=60)
def test_no_nvlink_is_down(proof: Proof, gpus: GpuPart) -> None:
    if gpus.board in UNLINKED:
        proof.not_applicable("the board has no NVLink", profile="parts.gpus.board", values=UNLINKED)
    links = parse_nvlink(proof.run(["nvidia-smi", "nvlink", "-s"]))
    proof.equals("GPUs with links", len(links), gpus.count, source="the profile")
    wanted = _links_wanted(gpus)
    down = [text for gpu in links if (text := _short_of(gpu, wanted))]
    proof.holds(
        not down,
        wanted=f"{wanted} active links on every GPU",
        read="; ".join(down) or f"{wanted} active on each of {len(links)} GPUs",
        source="the profile",
        action=RESEAT,
    )


@pytest.mark.proof("gpu.nvlink_errors", timeout_s=60)
def test_nvlinks_count_few_errors(proof: Proof, gpus: GpuPart) -> None:
    if gpus.board in UNLINKED:
        proof.not_applicable("the board has no NVLink", profile="parts.gpus.board", values=UNLINKED)
    errors = parse_nvlink_errors(proof.run(["nvidia-smi", "nvlink", "-e"]))
    (gpu, link), count = max(errors.items(), key=lambda item: item[1])
    proof.measured(
        "gpu.nvlink_errors",
        count,
        at=f"on link {link} of GPU {gpu}",
        action="reset the GPUs, which clears the counters, and accept again; "
        "if they count on, reseat the bridge or module; then RMA",
    )


def _links_wanted(gpus: GpuPart) -> int:
    """NV4 on a mesh of 4 is 3 x 4 links of a GPU; behind switches and bridges NV12 is 12."""
    each = int(gpus.nvlink.removeprefix("NV"))
    return each * (gpus.count - 1) if gpus.board == "mesh" else each


def _short_of(gpu: GpuLinks, wanted: int) -> str:
    if len(gpu.active) >= wanted:
        return ""
    inactive = f", inactive: {', '.join(map(str, gpu.inactive))}" if gpu.inactive else ""
    return f"GPU {gpu.index}: {len(gpu.active)} of {wanted} active{inactive}"


def _joined(topology: Matrix, gpus: GpuPart, a: int, b: int) -> bool:
    return gpus.board in LINKED or topology.links(a, b) > 0


def _words(topology: Matrix) -> str:
    kinds = sorted(set(topology.cells.values()))
    return f"{', '.join(kinds) or 'one GPU'} between {len(topology.gpus)} GPUs"
