"""Proofs of the later levels, and of the server: healthy boards pass, each sabotage is named."""

from __future__ import annotations

import itertools
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nodeprep.accept.job import LEVELS
from nodeprep.accept.parsers.ethtool import parse_statistics
from nodeprep.accept.proof import PATH
from nodeprep.lab.sim import board as boards
from nodeprep.model.claim import DiskRule, Mount
from nodeprep.model.hardware import Cpu, Disk
from nodeprep.model.profile import Profile
from nodeprep.model.verdict import Outcome, Verdict
from tests.unit.accept.nodes import (
    CACHE,
    CLOCK,
    DRIVER,
    Answer,
    Outcomes,
    accepted,
    break_board,
    document,
    job,
    profile,
    reading,
    simulated_node,
)
from tests.unit.accept.test_role_proofs import (
    CHOSEN,
    CLAIMS,
    LATER,
    REAL,
    ROLES,
    VOLUME,
    Rack,
    data,
    gpu,
    red,
)

MODELS = ("a100-sxm4-40g-x4", "a100-pcie-40g-x4", "a100-sxm4-80g-x8", "h100-sxm5-80g-x8")
RX_POWER = "nic.module.rx_power"
Change = Callable[[Any], object]


@pytest.fixture
def rack(node: Any, monkeypatch: pytest.MonkeyPatch) -> Rack:
    return Rack(node, monkeypatch)


def prove(
    rack: Rack,
    *roles: str,
    level: str = "stress",
    on: Profile = REAL,
    claims: Any = CLAIMS,
    **hardware: Any,
) -> Outcomes:
    if roles == ("nvme_cache",) and claims is CLAIMS:
        claims = VOLUME
    what = job(document(*roles, on=on, claims=claims), level=level, reading=reading(**hardware))
    return accepted(what, rack.node)


def ran(rack: Rack, word: str) -> list[str]:
    return [command for command, _, _ in rack.node.ran if word in command]


def shown(verdict: Verdict) -> str:
    return f"{verdict.read} {verdict.reason}"


class TestHealthy:
    # burnin runs all proofs; the others differ in the depth of one diagnostic and in sizes.
    @pytest.mark.parametrize(
        ("model", "level"),
        [*((model, "burnin") for model in MODELS), *((MODELS[0], level) for level in LEVELS[:2])],
    )
    def test_no_healthy_board_is_refused_at_any_level(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: str, level: str
    ) -> None:
        rack = Rack(simulated_node(tmp_path / "board", model), monkeypatch)
        rack.broken(lambda board: board["fabric_manager"].update(running=DRIVER))
        buses = [gpu["address"][5:7] for gpu in boards.new(model, "test")["gpus"]]
        # access needs sshd, which is here no simulation
        roles = [role for role in ROLES if role != "access"]
        found = prove(rack, *roles, level=level, on=profile(model), buses=buses)
        assert red(found) == {}
        assert found.done["accepted"]

    def test_in_the_lab_neither(self, rack: Rack) -> None:
        found = prove(rack, "base", "nfs_client", level="burnin", on=profile(f"lab-{MODELS[0]}"))
        assert red(found) == {}
        # A container's disks are not its own: said so, and not passed in silence.
        for name in ("storage.sequential_read", "storage.random_read_iops", "nfs.read_throughput"):
            assert found.proof(name).verdict is Outcome.NOT_APPLICABLE
            assert "kernel" in found.proof(name).reason
        assert not ran(rack, "fio")

    @pytest.mark.parametrize("role", LATER)
    def test_every_later_proof_passes_on_a_healthy_node(self, rack: Rack, role: str) -> None:
        found = prove(rack, role, level="burnin")
        passed = {v.claim for v in found.verdicts.values() if v.verdict is Outcome.PASS}
        assert passed >= {f"{role}/proof:{name}" for name in LATER[role]}

    @pytest.mark.parametrize("role", LATER)
    @pytest.mark.parametrize(
        "answer", [Answer(rc=127), Answer(), Answer(timed_out=True, rc=124), Answer("\x00{garbage")]
    )
    def test_tools_that_are_missing_silent_hung_or_mad_pass_nothing(
        self, rack: Rack, role: str, answer: Answer
    ) -> None:
        rack.node.answers = {".": answer}
        found = prove(rack, role, level="burnin")
        for name in LATER[role] - CHOSEN:
            assert found.proof(name).verdict is Outcome.UNKNOWN, name

    def test_what_is_later_is_not_run_by_provision(self, rack: Rack) -> None:
        names = {claim.rpartition(":")[2] for claim in prove(rack, *ROLES, level="poc").verdicts}
        assert not names & {name for later in LATER.values() for name in later}

    @pytest.mark.parametrize("level", LEVELS)
    def test_a_verdict_tells_its_level(self, rack: Rack, level: str) -> None:
        assert prove(rack, "cuda", level=level).proof("cuda.nvcc").detail["level"] == level


class TestCollectives:
    def test_poc_is_quick_and_stress_sweeps(self, rack: Rack) -> None:
        prove(rack, "nccl", level="poc")
        assert "-b 512M" in ran(rack, "all_reduce_perf")[0]
        rack.node.ran.clear()
        curve = prove(rack, "nccl").proof("nccl.all_reduce.busbw").detail["curve"]
        assert (curve["x"][0], curve["x"][-1], len(curve["y"])) == (1 << 10, 8 << 30, 24)
        assert curve["y"] == sorted(curve["y"])
        assert len(ran(rack, "all_reduce_perf")) == 1

    @pytest.mark.parametrize("op", ["all_gather", "reduce_scatter", "alltoall"])
    def test_a_slow_collective_is_named(self, rack: Rack, op: str) -> None:
        rack.broken(lambda board: board["performance"]["factors"].update({op: 0.5}))
        found = red(prove(rack, "nccl"))
        assert found.keys() == {f"nccl.{op}.busbw"}
        assert found[f"nccl.{op}.busbw"].verdict is Outcome.FAIL
        assert found[f"nccl.{op}.busbw"].detail["curve"]["y"]

    def test_wrong_values_are_seen_by_each(self, rack: Rack) -> None:
        rack.broken(lambda board: board["nccl"].update(wrong=3))
        found = red(prove(rack, "nccl", level="burnin"))
        names = {f"nccl.{op}.busbw" for op in ("all_gather", "reduce_scatter", "alltoall")}
        assert found.keys() == names | {"nccl.all_reduce.correct", "nccl.soak"}
        assert {verdict.verdict for verdict in found.values()} == {Outcome.FAIL}
        assert "wrong values" in found["nccl.alltoall.busbw"].reason

    def test_validation_off_is_not_measured(self, rack: Rack) -> None:
        rack.broken(lambda board: board["nccl"].update(validation=False))
        found = red(prove(rack, "nccl"))
        assert found["nccl.alltoall.busbw"].verdict is Outcome.UNKNOWN
        assert "validation" in found["nccl.all_gather.busbw"].reason

    def test_the_soak_lasts_as_long_on_a_slow_board(self, rack: Rack) -> None:
        prove(rack, "nccl", level="burnin")
        prove(rack, "nccl", level="burnin", on=profile("a100-pcie-40g-x4"))
        fast, slow = (
            int(command.partition(" -n ")[2].split()[0]) for command in ran(rack, "-b 4G -e 4G")
        )
        assert fast > 5 * slow > 500


class TestCompute:
    def test_a_gpu_that_is_slower_than_its_sisters_is_named_even_above_the_gate(
        self, rack: Rack
    ) -> None:
        rack.broken(lambda board: board["gpus"][2].update(compute_factor=0.89, memory_factor=0.93))
        found = red(prove(rack, "gpu_tools"))
        assert found.keys() == {"gpu.gemm_fp16", "gpu.gemm_tf32", "gpu.memory_bandwidth"}
        for name in ("gpu.gemm_fp16", "gpu.gemm_tf32"):
            assert "gpu.gemm_spread is" in found[name].reason
            assert "GPU2" in found[name].reason
        assert "gpu.memory_spread is" in found["gpu.memory_bandwidth"].reason

    def test_all_slow_alike_fail_by_the_gate(self, rack: Rack) -> None:
        slow = {"compute_factor": 0.8, "memory_factor": 0.8}
        rack.broken(lambda board: [one.update(slow) for one in board["gpus"]])
        found = red(prove(rack, "gpu_tools"))
        assert found.keys() == {"gpu.gemm_fp16", "gpu.gemm_tf32", "gpu.memory_bandwidth"}
        assert "gpu.gemm_tf32 is 100" in found["gpu.gemm_tf32"].reason
        assert "gpu.gemm_fp16 is 200" in found["gpu.gemm_fp16"].reason
        assert "RMA" in found["gpu.memory_bandwidth"].action

    def test_a_gpu_that_says_nothing_has_not_passed(self, rack: Rack) -> None:
        rack.says("dcgmproftester12", "TensorEngineActive: x (250000 gflops)\n")
        rack.says("device_local_copy", "Running device_local_copy.\n x (GB/s)\n 0\n 0 700.1\n")
        rack.says("cublasGemmEx", "gpu 2 TFLOPS 128.00 result 0badcafe\n")
        found = prove(rack, "gpu_tools")
        names = ("gpu.gemm_fp16", "gpu.gemm_tf32", "gpu.gemm_results", "gpu.memory_bandwidth")
        for name in names:
            assert found.proof(name).verdict is Outcome.UNKNOWN
            assert "1 of 4 GPUs" in found.proof(name).reason

    def test_a_gpu_that_computes_wrongly_is_named_with_how_often(self, rack: Rack) -> None:
        rack.broken(lambda board: board["gpus"][2].update(computes_wrongly=True))
        found = red(prove(rack, "gpu_tools"))
        assert found.keys() == {"gpu.gemm_results"}
        assert found["gpu.gemm_results"].verdict is Outcome.FAIL
        assert found["gpu.gemm_results"].read == "23 of 24 rounds agree"
        assert "1 of 6 on GPU2" in found["gpu.gemm_results"].reason

    @pytest.mark.parametrize(
        ("results", "verdict", "words"),
        [
            ("aaaa", Outcome.PASS, ""),
            ("aaab", Outcome.FAIL, "1 of 1 on GPU3"),
            ("aabb", Outcome.FAIL, "any may be right"),
            ("abcd", Outcome.FAIL, "any may be right"),
        ],
    )
    def test_results_are_compared_between_gpus(
        self, rack: Rack, results: str, verdict: Outcome, words: str
    ) -> None:
        lines = (f"gpu {n} TFLOPS 128.0 result {one * 8}" for n, one in enumerate(results))
        rack.says("cublasGemmEx", "\n".join(lines))
        found = prove(rack, "gpu_tools").proof("gpu.gemm_results")
        assert found.verdict is verdict
        assert words in found.reason

    def test_what_cuda_refuses_is_told_with_the_gpu(self, rack: Rack) -> None:
        rack.broken(lambda board: board["gpus"].pop())
        found = prove(rack, "gpu_tools").proof("gpu.gemm_tf32")
        assert found.verdict is Outcome.UNKNOWN
        assert "GPU3: cudaSetDevice: invalid device ordinal" in found.reason

    def test_one_run_serves_both_and_burnin_lasts_longer(self, rack: Rack) -> None:
        prove(rack, "gpu_tools")
        prove(rack, "gpu_tools", level="burnin")
        stress, burnin = (command.split()[-1] for command in ran(rack, "cublasGemmEx"))
        assert int(burnin) > 15 * int(stress) > 1000

    def test_a_release_without_the_test_is_unknown(self, rack: Rack) -> None:
        rack.tool("nvbandwidth", 'echo "ERROR: Testcase $2 not found!" >&2; exit 1')
        found = prove(rack, "gpu_tools").proof("gpu.memory_bandwidth")
        assert found.verdict is Outcome.UNKNOWN
        assert "not found" in found.reason


class TestPeers:
    def test_the_matrix_is_kept(self, rack: Rack) -> None:
        found = prove(rack, "gpu_tools")
        for name in ("p2p_read", "p2p_write", "p2p_bidirectional"):
            matrix = found.proof(f"nvbandwidth.{name}").detail["matrix"]
            assert matrix["rows"] == matrix["cols"] == ["GPU0", "GPU1", "GPU2", "GPU3"]
            assert [matrix["values"][n][n] for n in range(4)] == [None] * 4
        host = found.proof("nvbandwidth.host_to_device").detail["matrix"]
        assert (host["rows"], len(host["values"][0])) == (["host"], 4)

    @pytest.mark.parametrize("model", ["a100-sxm4-40g-x4", "a100-pcie-40g-x4", "h100-sxm5-80g-x8"])
    def test_the_slowest_pair_is_named(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: str
    ) -> None:
        rack = Rack(simulated_node(tmp_path / "board", model), monkeypatch)
        rack.broken(lambda board: board["fabric_manager"].update(running=DRIVER))

        def slow(board: Any) -> None:
            pair = " ".join(sorted(board["gpus"][n]["address"] for n in (2, 3)))
            board["performance"]["pairs"] = {pair: 0.4}

        rack.broken(slow)
        found = red(prove(rack, "gpu_tools", on=profile(model)))
        for name in ("p2p_read", "p2p_write", "p2p_bidirectional"):
            read = found[f"nvbandwidth.{name}"].read
            assert "GPU2 and GPU3" in read or "GPU3 and GPU2" in read

    def test_both_ways_by_the_total_of_newer_tools(self, rack: Rack) -> None:
        text = data("nvbandwidth_bidirectional.txt")
        rack.says("-t device_to_device_bidirectional", text)
        found = prove(rack, "gpu_tools").proof("nvbandwidth.p2p_bidirectional")
        assert found.verdict is Outcome.PASS
        assert found.value == pytest.approx(179.11)
        # One way back that is slow, seen while both ways work.
        rack.says("-t device_to_device_bidirectional", text.replace("179.31", "120.05"))
        found = prove(rack, "gpu_tools").proof("nvbandwidth.p2p_bidirectional")
        assert found.verdict is Outcome.FAIL
        assert "GPU2 and GPU1" in found.read

    def test_a_pair_whose_bridge_is_gone_does_not_leave_the_comparison(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        rack = Rack(simulated_node(tmp_path / "board", "a100-pcie-40g-x4"), monkeypatch)

        def unbridged(board: Any) -> None:
            for one in board["gpus"][:2]:
                for link in one["nvlinks"]:
                    link["active"] = False

        rack.broken(unbridged)
        found = red(prove(rack, "gpu_tools", on=profile("a100-pcie-40g-x4")))
        assert "GPU0, GPU1" in found["nvbandwidth.p2p_read"].reason

    @pytest.mark.parametrize(
        ("letter", "what"), [("r", "reads"), ("w", "writes"), ("a", "atomics")]
    )
    def test_each_way_of_access_is_asked_for(self, rack: Rack, letter: str, what: str) -> None:
        rows = ["\tGPU0\tGPU1\tGPU2\tGPU3"]
        for one in range(4):
            cells = ["X" if one == n else "NS" if {one, n} == {1, 2} else "OK" for n in range(4)]
            rows.append(f"GPU{one}\t" + "\t".join(cells))
        rack.says(f"topo -p2p {letter}", "\n".join(rows))
        found = red(rack.prove("nvidia_driver"))
        assert found.keys() == {"gpu.p2p"}
        assert f"{what}: GPU1 to GPU2 NS" in found["gpu.p2p"].read


class TestDiagnostic:
    END = "\nended with {}\n"

    def diagnosed(self, rack: Rack, text: str, code: int = 0, level: str = "stress") -> Verdict:
        rack.says("dcgmi diag", text + self.END.format(code))
        return prove(rack, "gpu_tools", level=level).proof("dcgm.diag")

    @pytest.mark.parametrize(("level", "run"), [("poc", 1), ("stress", 3), ("burnin", 4)])
    def test_it_goes_as_deep_as_the_level(self, rack: Rack, level: str, run: int) -> None:
        prove(rack, "gpu_tools", level=level)
        assert [f"-r {run} " in command for command in ran(rack, "dcgmi diag")] == [True]

    @pytest.mark.parametrize("name", ["dcgm3_r3.json", "dcgm4_r3.json"])
    def test_both_generations_of_its_document(self, rack: Rack, name: str) -> None:
        assert self.diagnosed(rack, data(name)).verdict is Outcome.PASS

    def test_what_it_warns_of_or_skips_is_noted(self, rack: Rack) -> None:
        notes = self.diagnosed(rack, data("dcgm3_r3.json")).detail["notes"]
        assert any("persistence_mode warns" in note for note in notes)
        assert any("pulse_test was skipped" in note for note in notes)

    def test_a_failed_test_names_gpu_and_reason(self, rack: Rack) -> None:
        rack.broken(gpu(2, ecc__volatile__dram_uncorrectable=4))
        found = red(prove(rack, "gpu_tools"))["dcgm.diag"]
        assert found.verdict is Outcome.FAIL
        assert "memory on GPU2" in found.read
        assert "ECC" in found.read

    def test_a_warning_as_a_mere_text(self, rack: Rack) -> None:
        document = json.loads(data("dcgm4_r3.json"))
        results = document["DCGM Diagnostic"]["test_categories"][1]["tests"][0]["results"]
        results[3].update(status="Fail", warnings="Detected 1 error on GPU 3")
        found = self.diagnosed(rack, json.dumps(document), 226)
        assert found.verdict is Outcome.FAIL
        assert "memory on GPU3: Detected 1 error" in found.read

    @pytest.mark.parametrize(
        ("old", "new", "reason"),
        [
            ('"entity_id": 3', '"entity_id": 2', "GPU3"),
            ('"status": "Pass"', '"status": "Skip"', "nothing was said"),
            ('"status": "Pass"', '"status": "Splendid"', "no known verdict"),
            ('"targeted_stress"', '"targeted_rest"', "targeted_stress did not run"),
            ('"test_categories"', '"runtime_error": "NVVS died", "test_categories"', "NVVS died"),
        ],
    )
    def test_what_was_not_measured_has_not_passed(
        self, rack: Rack, old: str, new: str, reason: str
    ) -> None:
        found = self.diagnosed(rack, data("dcgm4_r3.json").replace(old, new))
        assert found.verdict is Outcome.UNKNOWN
        assert reason in found.reason

    def test_a_pass_over_too_little_memory_is_none(self, rack: Rack) -> None:
        document = json.loads(data("dcgm4_r3.json"))
        results = document["DCGM Diagnostic"]["test_categories"][1]["tests"][0]["results"]
        warning = "Couldn't allocate at least 75.0% of GPU memory on GPU 3"
        results[3].update(warnings=[{"error_category": 4, "error_id": 9, "warning": warning}])
        found = self.diagnosed(rack, json.dumps(document))
        assert found.verdict is Outcome.UNKNOWN
        assert f"memory got too little memory on GPU3: {warning}" in found.reason
        assert "gpu.unused" in found.action

    def test_what_is_wrong_with_no_gpu_of_its_own_counts(self, rack: Rack) -> None:
        document = json.loads(data("dcgm4_r3.json"))
        test = document["DCGM Diagnostic"]["test_categories"][0]["tests"][0]
        test["test_summary"] = {"status": "Fail", "warnings": [{"warning": "Fabric manager: off"}]}
        found = self.diagnosed(rack, json.dumps(document), 226)
        assert found.verdict is Outcome.FAIL
        assert "software on the node: Fabric manager: off" in found.read

    def test_a_pass_that_complains_is_noted(self, rack: Rack) -> None:
        document = json.loads(data("dcgm4_r3.json"))
        results = document["DCGM Diagnostic"]["test_categories"][0]["tests"][0]["results"]
        results[1]["warnings"] = [{"warning": "Row remapping is near its limit"}]
        notes = self.diagnosed(rack, json.dumps(document)).detail["notes"]
        assert "software warns on GPU1: Row remapping is near its limit" in notes

    def test_a_code_that_contradicts_the_words_is_unknown(self, rack: Rack) -> None:
        found = self.diagnosed(rack, data("dcgm3_r3.json"), 205)
        assert found.verdict is Outcome.UNKNOWN
        assert "205" in found.reason

    def test_a_run_cut_short_is_unknown(self, rack: Rack) -> None:
        rack.says("dcgmi diag", data("dcgm3_r3.json"))
        assert prove(rack, "gpu_tools").proof("dcgm.diag").verdict is Outcome.UNKNOWN

    def test_a_host_engine_that_does_not_answer(self, rack: Rack) -> None:
        text = "Error: unable to establish a connection to the specified host: localhost"
        found = self.diagnosed(rack, text, 255)
        assert found.verdict is Outcome.UNKNOWN
        assert "unable to establish" in found.reason
        assert "nvidia-dcgm" in found.action

    def test_one_gpu_that_is_slower_than_its_sisters(self, rack: Rack) -> None:
        text = data("dcgm3_r3.json").replace("18267", "15100")
        found = self.diagnosed(rack, text)
        assert found.verdict is Outcome.FAIL
        assert "GPU2" in found.read
        assert found.value == pytest.approx(17.4, abs=0.1)

    def test_so_is_one_that_the_hardware_slows_down(self, rack: Rack) -> None:
        rack.broken(gpu(1, locked_clocks=[1100, 1100]))
        assert "at GPU1" in shown(red(prove(rack, "gpu_tools"))["dcgm.diag"])


class TestHindsight:
    def test_it_is_the_last_of_all(self, rack: Rack) -> None:
        found = prove(rack, *ROLES, level="burnin")
        assert list(found.verdicts)[-1] == "gpu_tools/proof:gpu.after_load"

    @pytest.mark.parametrize("code", [63, 94])
    def test_an_xid_that_came_while_it_worked(self, rack: Rack, code: int) -> None:
        line = f"{CLOCK + 60:.6f} gpu1 kernel: NVRM: Xid (PCI:0000:17:00): {code}, pid=1\n"
        rack.says("journalctl", line)
        found = red(prove(rack, "gpu_tools"))
        assert found.keys() == {"gpu.after_load"}
        assert f"XID {code}" in found["gpu.after_load"].read

    def test_an_older_one_is_anothers_affair(self, rack: Rack) -> None:
        line = f"{CLOCK - 60:.6f} gpu1 kernel: NVRM: Xid (PCI:0000:17:00): 48, pid=1\n"
        rack.says("journalctl", line)
        assert "gpu.after_load" not in red(prove(rack, "gpu_tools"))

    @pytest.mark.parametrize(
        "fault", [gpu(1, ecc__volatile__sram_uncorrectable=1), gpu(1, remap__pending=True)]
    )
    def test_a_mark_in_memory(self, rack: Rack, fault: Change) -> None:
        rack.broken(fault)
        found = red(prove(rack, "gpu_tools"))["gpu.after_load"]
        assert found.verdict is Outcome.FAIL
        assert "31:00.0" in found.read


class TestGdrcopy:
    @pytest.mark.parametrize(
        ("text", "name"),
        [
            ("write BW: 1200.00MB/s\nread BW: 530.13MB/s\n", "gdrcopy.write_bw"),
            ("write BW: 9600MB/s\nread BW: 90MB/s", "gdrcopy.read_bw"),
        ],
    )
    def test_too_slow_either_way(self, rack: Rack, text: str, name: str) -> None:
        rack.says("gdrcopy_copybw -d 3", text)
        found = red(prove(rack, "gdrcopy"))
        assert found.keys() == {name}
        assert "at GPU3" in found[name].read

    def test_a_rate_that_is_not_told(self, rack: Rack) -> None:
        rack.says("gdrcopy_copybw -d 0", "write BW: 9600.00MB/s\n")
        assert prove(rack, "gdrcopy").proof("gdrcopy.read_bw").verdict is Outcome.UNKNOWN

    def test_each_gpu_is_asked_once(self, rack: Rack) -> None:
        prove(rack, "gdrcopy")
        assert len(ran(rack, "gdrcopy_copybw")) == 4


class TestProcessors:
    def test_too_few_cores_for_the_gpus(self, rack: Rack) -> None:
        found = red(prove(rack, "base", cpu=Cpu(sockets=1, cores_per_socket=12, numa_nodes=1)))
        assert found.keys() == {"cpu.cores_per_gpu"}
        assert "12 cores for 4 GPUs" in found["cpu.cores_per_gpu"].read

    def test_interleaved_memory(self, rack: Rack) -> None:
        found = red(prove(rack, "base", cpu=Cpu(sockets=2, cores_per_socket=32, numa_nodes=1)))
        assert found.keys() == {"cpu.numa"}
        assert "BIOS" in found["cpu.numa"].action

    @pytest.mark.parametrize("cpu", [None, Cpu()])
    def test_what_was_not_read_is_unknown(self, rack: Rack, cpu: Cpu | None) -> None:
        found = red(prove(rack, "base", cpu=cpu))
        assert found.keys() == {"cpu.cores_per_gpu", "cpu.numa"}
        assert {verdict.verdict for verdict in found.values()} == {Outcome.UNKNOWN}


def nic(**fields: Any) -> Change:
    return lambda board: board["nics"][0].update(fields)


def counts(**fields: int) -> Change:
    return lambda board: board["nics"][0]["stats"].update(fields)


class TestNics:
    @pytest.mark.parametrize(
        ("fault", "names", "words"),
        [
            (nic(speed=1000), {"nic.link"}, "1000 Mb/s"),
            (nic(duplex="Half"), {"nic.link"}, "half duplex"),
            (nic(link=False), {"nic.link"}, "no link"),
            (counts(rx_crc_errors=5521, rx_errors=5521), {"nic.errors"}, "5521"),
            (counts(rx_missed_errors=1284331), {"nic.errors"}, "rx_missed_errors"),
        ],
    )
    def test_each_fault_is_named(
        self, rack: Rack, fault: Change, names: set[str], words: str
    ) -> None:
        rack.broken(fault)
        found = red(prove(rack, "base"))
        assert found.keys() == names
        (verdict,) = found.values()
        assert verdict.verdict is Outcome.FAIL
        assert words in verdict.read
        assert verdict.action

    def test_too_little_light_is_named(self, rack: Rack) -> None:
        rack.broken(lambda board: board["nics"][0]["module"].update(rx_dbm=-21.5))
        found = red(prove(rack, "base"))
        assert found.keys() == {"nic.module"}
        assert "Laser rx power low alarm" in found["nic.module"].read
        assert "rx -21.5 dBm" in found["nic.module"].read
        assert "fibre" in found["nic.module"].action

    @pytest.mark.parametrize(
        "said",
        [
            "netlink error: Operation not supported",
            "Cannot get module EEPROM information: Operation not supported",
            "Cannot get Module EEPROM data: Invalid argument",
        ],
    )
    def test_a_nic_without_module_diagnostics_has_no_alarm_unless_the_profile_asks(
        self, rack: Rack, said: str
    ) -> None:
        tool = f"echo '{said}' >&2; exit 1"
        rack.tool("ethtool", f'case "$1" in -m) {tool};; esac')
        found = prove(rack, "base").proof("nic.module")
        assert found.verdict is Outcome.PASS
        assert "without diagnostics" in found.read
        gate = {"fail": -14.0, "unit": "dBm", "source": "a test"}
        asked = Profile.model_validate(
            {**REAL.model_dump(), "gates": {**REAL.model_dump()["gates"], RX_POWER: gate}}
        )
        found = prove(rack, "base", on=asked).proof("nic.module")
        assert found.verdict is Outcome.UNKNOWN
        assert "has a gate" in found.reason

    @pytest.mark.parametrize(("dbm", "outcome"), [(-9.0, Outcome.PASS), (-15.0, Outcome.FAIL)])
    def test_a_profile_may_say_how_much_light_it_takes(
        self, rack: Rack, dbm: float, outcome: Outcome
    ) -> None:
        rack.broken(lambda board: board["nics"][0]["module"].update(rx_dbm=dbm))
        gate = {"fail": -14.0, "unit": "dBm", "source": "a test"}
        asked = Profile.model_validate(
            {**REAL.model_dump(), "gates": {**REAL.model_dump()["gates"], RX_POWER: gate}}
        )
        assert prove(rack, "base", on=asked).proof("nic.module").verdict is outcome

    def test_a_module_that_cannot_be_read_is_unknown(self, rack: Rack) -> None:
        rack.tool("ethtool", 'case "$1" in -m) echo "Input/output error" >&2; exit 5;; esac')
        found = prove(rack, "base").proof("nic.module")
        assert found.verdict is Outcome.UNKNOWN
        assert "Input/output error" in found.reason

    def test_an_alarm_from_before_the_fibre_was_plugged_in_is_over(
        self, rack: Rack, tmp_path: Path
    ) -> None:
        """The first read of a latched alarm tells of the past, and clears it."""
        read = tmp_path / "read"
        alarm = "printf 'Identifier : 0x11 (QSFP28)\\nRx power low alarm : [ %s ]\\n'"
        once = f"if [ -e {read} ]; then {alarm} No; else {alarm} Yes; fi; : >{read}"
        rack.tool("ethtool", f'case "$1" in -m) {once}; exit;; esac')
        assert prove(rack, "base").proof("nic.module").verdict is Outcome.PASS

    def test_frames_that_nobody_listens_to_are_no_loss(self, rack: Rack) -> None:
        rack.broken(counts(rx_dropped=1284331))
        assert red(prove(rack, "base")) == {}

    def test_a_few_errors_since_the_link_came_up_are_none(self, rack: Rack) -> None:
        rack.says("ethtool -S", "     rx_packets: 900\n     rx_crc_errors: 2\n")
        assert red(prove(rack, "base")) == {}

    def test_bits_that_fec_corrected_are_no_errors(self, rack: Rack) -> None:
        text = "     rx_packets_phy: 9000\n     rx_err_lane_3_phy: 17722623\n"
        rack.says("ethtool -S", f"{text}     rx_steer_missed_packets: 1962570491\n")
        assert red(prove(rack, "base")) == {}

    def test_the_kernel_counts_packets_where_the_driver_does_not(
        self, rack: Rack, tmp_path: Path
    ) -> None:
        prove(rack, "base")
        command = next(line for line, *_ in rack.node.ran if "ethtool -S ens5f0" in line)
        (tmp_path / "ethtool").write_text("#!/bin/sh\necho '     rx_crc_errors: 1'\n")
        (tmp_path / "ethtool").chmod(0o755)
        said = subprocess.check_output(
            command.replace("ens5f0", "lo").replace(f"PATH={PATH}", f"PATH={tmp_path}:{PATH}"),
            shell=True, text=True,
        )  # fmt: skip
        counted = parse_statistics(said).values
        assert counted.keys() == {"rx_packets", "tx_packets", "rx_crc_errors"}

    def test_errors_that_grow_while_it_works(self, rack: Rack) -> None:
        seen = itertools.count()

        class Counting(dict[str, Answer]):
            """One error more whenever a command is answered."""

            def items(self) -> Any:
                text = f"     rx_packets: 900000000\n     rx_crc_errors: {next(seen)}\n"
                self["ethtool -S"] = Answer(text)
                return super().items()

        rack.node.answers = Counting({"ethtool -S": Answer(), **rack.node.answers})
        found = red(prove(rack, "base"))
        assert found.keys() == {"nic.errors_under_load"}
        assert "rx_crc_errors +" in found["nic.errors_under_load"].read

    def test_no_neighbour_no_load_no_pass(self, rack: Rack) -> None:
        rack.says("ip route", "10.7.0.0/24 dev ens5f0 scope link\n")
        found = prove(rack, "base").proof("nic.errors_under_load")
        assert found.verdict is Outcome.UNKNOWN

    def test_where_no_nic_was_ordered_there_is_nothing_to_compare(self, rack: Rack) -> None:
        found = prove(rack, "base", on=profile("server"), claims=CLAIMS)
        assert found.proof("nic.link").verdict is Outcome.NOT_APPLICABLE
        assert found.proof("cpu.numa").verdict is Outcome.NOT_APPLICABLE
        assert found.proof("storage.sequential_read").verdict is Outcome.NOT_APPLICABLE


class TestStorage:
    FIO = data("fio_scratch.json")

    @pytest.mark.parametrize(
        ("old", "new", "name"),
        [
            ('"bw_bytes": 3221225472', '"bw_bytes": 550000000', "storage.sequential_read"),
            ('"iops": 393216.0', '"iops": 9800.5', "storage.random_read_iops"),
        ],
    )
    def test_a_slow_disk(self, rack: Rack, old: str, new: str, name: str) -> None:
        rack.says("fio", self.FIO.replace(old, new))
        found = red(prove(rack, "base"))
        assert found.keys() == {name}
        assert found[name].verdict is Outcome.FAIL

    def test_one_run_serves_both_and_leaves_nothing(self, rack: Rack) -> None:
        prove(rack, "base")
        (command,) = ran(rack, "fio ")
        assert "/cache/.nodeprep-fio." in command
        assert 'rm -rf "$d"' in command
        assert "/dev/" not in command.replace("/dev/null", "")

    @pytest.mark.parametrize(
        ("error", "text"), [('"error": 0', '"error": 28'), ('"sequential"', '"other"')]
    )
    def test_a_run_that_failed_is_unknown(self, rack: Rack, error: str, text: str) -> None:
        rack.says("fio", self.FIO.replace(error, text))
        found = red(prove(rack, "base"))
        assert found["storage.sequential_read"].verdict is Outcome.UNKNOWN

    @pytest.mark.parametrize("kind", ["nfs4", "tmpfs", "overlay", "wekafs", "9p", "autofs\nnfs4"])
    def test_what_is_no_disk_is_not_measured(self, rack: Rack, kind: str) -> None:
        rack.says("findmnt", f"{kind}\n")
        reason = red(prove(rack, "base"))["storage.sequential_read"].reason
        assert kind.rpartition("\n")[2] in reason
        assert not ran(rack, "fio ")

    def test_nobody_is_left_without_room(self, rack: Rack) -> None:
        rack.says("df -B1", "Avail\n5000000000\n")
        assert "free" in red(prove(rack, "base"))["storage.sequential_read"].reason
        assert not ran(rack, "fio ")

    def test_another_disk_is_not_taken_for_the_cache(self, rack: Rack) -> None:
        bare = CACHE.model_copy(update={"in_use": ()})
        other = Disk(name="sda", size_bytes=480 * 10**9, transport="sata", in_use=("mounted at /",))
        found = red(prove(rack, "base", disks=(other, bare)))
        assert "mounted nowhere" in found["storage.sequential_read"].reason

    def test_a_claimed_mount_is_where_the_cache_is(self, rack: Rack) -> None:
        mount = Mount(role="disks", name="/srv/cache", device="UUID=1", fstype="xfs")
        prove(rack, "base", claims=(*CLAIMS, mount), disks=None)
        assert "/srv/cache/.nodeprep-fio." in ran(rack, "fio ")[0]


class TestLocalDisks:
    def test_an_array_that_is_no_faster_than_a_disk(self, rack: Rack) -> None:
        slow = data("fio_scratch.json").replace('"iops": 393216.0', '"iops": 120000.0')
        rack.says("fio ", slow)
        found = red(prove(rack, "nvme_cache"))
        assert found.keys() == {"cache.scaling"}
        assert "of 2 at /cache" in shown(found["cache.scaling"])

    def test_a_plain_disk_has_no_members(self, rack: Rack) -> None:
        plain = VOLUME[1].model_copy(update={"array": None, "disks": DiskRule(count=1, size_gb=1)})
        found = prove(rack, "nvme_cache", claims=(plain, VOLUME[2]))
        assert found.proof("cache.scaling").verdict is Outcome.PASS
        assert not ran(rack, "fio ")


class TestNas:
    def test_a_slow_nas(self, rack: Rack) -> None:
        text = data("fio_nfs.json").replace('"bw_bytes": 1073741824', '"bw_bytes": 90000000')
        rack.says("--readonly", text)
        found = red(prove(rack, "nfs_client"))
        assert found.keys() == {"nfs.read_throughput"}
        assert "from /data" in found["nfs.read_throughput"].read

    def test_a_folder_that_is_no_mount_is_not_measured(self, rack: Rack) -> None:
        rack.says("stat -f", "xfs\n")
        found = prove(rack, "nfs_client").proof("nfs.read_throughput")
        assert found.verdict is Outcome.UNKNOWN

    def test_a_site_without_a_nas_has_nothing_to_prove(self, rack: Rack) -> None:
        found = prove(rack, "nfs_client", claims=CLAIMS[:3]).proof("nfs.read_throughput")
        assert (found.verdict, found.read) == (Outcome.PASS, "no mount is claimed")


def test_a_broken_board_stays_broken_between_levels(rack: Rack) -> None:
    """Later levels add to the first; they do not replace it."""
    break_board(rack.node, lambda board: board["nccl"].update(interface="cni0"))
    for level in LEVELS:
        assert "nccl.interface" in red(prove(rack, "nccl", level=level))
