"""Every proof of a role: a healthy node passes it, and each sabotage turns it red, by name."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nodeprep.model.claim import (
    Array,
    Claim,
    DiskRule,
    File,
    Filesystem,
    Interrupts,
    Mount,
    Package,
)
from nodeprep.model.profile import Profile
from nodeprep.model.verdict import Outcome, Verdict
from tests.unit.accept.nodes import (
    CLOCK,
    ROOT,
    SIM,
    Answer,
    FakeNode,
    Outcomes,
    accepted,
    break_board,
    document,
    job,
    profile,
)

LIMITS = "* - memlock unlimited\n* - nofile 1048576\nroot - nofile 1048576\n"
CLAIMS: tuple[Claim, ...] = (
    File(role="base", name="/etc/security/limits.d/60-nodeprep.conf", content=LIMITS),
    File(role="nccl", name="/etc/nccl.conf", content="NCCL_SOCKET_IFNAME==ens5f0\n"),
    Package(role="cuda", name="cuda-toolkit-12-1"),
    Interrupts(role="nic_tuning", name="ens5f0"),
    Mount(role="nfs_client", name="/data", device="nas1:/training", fstype="nfs4"),
)
UUID = "6f9619ff-8b86-5d01-b42d-00cf4fc964ff"
VOLUME: tuple[Claim, ...] = (
    Array(role="nvme_cache", name="cache", uuid=UUID, level=0, chunk_kib=512,
          disks=DiskRule(count=2, size_gb=2000)),
    Filesystem(role="nvme_cache", name="/cache", uuid=UUID, array="cache"),
    Mount(role="nvme_cache", name="/cache", device=f"UUID={UUID}", fstype="xfs"),
)  # fmt: skip


def with_rdma(one: Profile) -> Profile:
    nics = tuple(nic.model_copy(update={"rdma": True}) for nic in one.parts.nics)
    return one.model_copy(update={"parts": one.parts.model_copy(update={"nics": nics})})


# With a kernel of its own, and RDMA, so that nothing is inapplicable.
REAL = with_rdma(profile("a100-sxm4-40g-x4"))


def data(name: str) -> str:
    return (ROOT / "tests/data/accept" / name).read_text()


# Outputs in the real tools' formats, to be doctored; else the stand-ins answer.
CANNED = {
    "all_reduce_perf": data("all_reduce_info.txt"),
    "-t host_to_device": data("nvbandwidth_h2d.txt"),
    "-t device_to_host": data("nvbandwidth_d2h.txt"),
    "-t device_to_device": data("nvbandwidth_p2p.txt"),
}
# Of ens5f0 the queues 40 and 41, on the CPUs 0 and 1; 9 is another device's.
INTERRUPTS = """\
      CPU0 CPU1
  9: 5 5 IO-APIC 9-fasteoi acpi
 40: 0 0 PCI-MSI 1-edge ens5f0-TxRx-0
 41: 0 0 PCI-MSI 2-edge ens5f0-TxRx-1
----
      CPU0 CPU1
  9: 5 9 IO-APIC 9-fasteoi acpi
 40: 200 0 PCI-MSI 1-edge ens5f0-TxRx-0
 41: 0 100 PCI-MSI 2-edge ens5f0-TxRx-1
----
/sys/class/net/ens5f0/device/msi_irqs:
40
41
----
/proc/irq/9/smp_affinity_list:0
/proc/irq/40/smp_affinity_list:0
/proc/irq/41/smp_affinity_list:1
"""
GOOD = {
    "sched_setaffinity": Answer("memory 288.41\nclock 2590 2600\n"),
    "/proc/interrupts": Answer(INTERRUPTS),
    "gid_attrs": Answer("gid 0: IB/RoCE v1\ngid 3: RoCE v2\nread\n"),
    "chronyc": Answer(data("chrony_tracking.txt")),
    "journalctl": Answer(data("journal.txt")),
    "id -un": Answer("ops\n"),
    "id -u": Answer("0\n"),
    "ulimit": Answer("unlimited\nunlimited\n1048576\n1048576\n"),
    "mpirun": Answer("gpu1\ngpu1\n"),
    "hostname": Answer("gpu1\n"),
    "socket": Answer("open\n"),
    "apt-proxy": Answer("DIRECT\n"),
    "ctr version": Answer("Client:\n  Version:  1.6.20\n\nServer:\n  Version:  1.6.20~ds1\n"),
    "ls -A": Answer("/data/.\n"),
    "stat -f": Answer("nfs\n"),
    "findmnt": Answer("xfs\n"),
    "df -B1": Answer("Avail\n1800000000000\n"),
    "sha256sum": Answer("same\n"),
    "--readonly": Answer(data("fio_nfs.json")),
    "fio ": Answer(data("fio_scratch.json")),
    "ip route": Answer("default via 10.7.0.1 dev ens5f0 proto static\n"),
    "ping": Answer("2000 packets transmitted, 2000 received, 0% packet loss\n"),
    r"date \+": Answer("{now}\n"),
}


class Rack:
    """Accepts one role of one node, with what was broken on it."""

    def __init__(self, node: FakeNode, monkeypatch: pytest.MonkeyPatch) -> None:
        self.node = node
        node.answers.update(GOOD)
        import time

        monkeypatch.setattr(time, "time", lambda: CLOCK)
        node.answers[r"date \+"] = Answer(f"{CLOCK}\n")
        self.broken(lambda board: board["nccl"].update(interface="ens5f0"))
        node.answers["cdi list"] = Answer(cdi_list(node))

    def prove(self, role: str, on: Profile = REAL, claims: Any = CLAIMS, **more: Any) -> Outcomes:
        if role == "nvme_cache" and claims is CLAIMS:
            claims = VOLUME
        return accepted(job(document(role, on=on, claims=claims)), self.node, **more)

    def says(self, pattern: str, stdout: str = "", **fields: Any) -> None:
        known = self.node.answers.get(pattern, Answer())
        answer = replace(known, stdout=stdout, **fields)
        self.node.answers = {pattern: answer, **self.node.answers}
        self.node.answers[pattern] = answer

    def tool(self, name: str, script: str) -> None:
        """`script` runs first; where it does not end, the stand-in answers."""
        assert self.node.sim
        place = self.node.sim / "bin" / name
        place.unlink(missing_ok=True)
        place.write_text(f'#!/bin/sh\n{script}\nexec {SIM} {name} "$@"\n')
        place.chmod(0o755)

    def broken(self, change: Callable[[Any], object]) -> None:
        break_board(self.node, change)


def cdi_list(node: FakeNode, without: str = "") -> str:
    """What nvidia-ctk lists for the node's board."""
    assert node.sim
    board = json.loads((node.sim / "board.json").read_text())
    uuids = [gpu["uuid"] for gpu in board["gpus"]]
    names = [str(index) for index in range(len(uuids))] + uuids + ["all"]
    return "".join(f"nvidia.com/gpu={name}\n" for name in names if name != without)


@pytest.fixture
def rack(node: FakeNode, monkeypatch: pytest.MonkeyPatch) -> Rack:
    return Rack(node, monkeypatch)


def red(outcomes: Outcomes) -> dict[str, Verdict]:
    """The proofs that block, by name."""
    return {
        claim.rpartition("/proof:")[2]: found
        for claim, found in outcomes.verdicts.items()
        if found.verdict.blocks
    }


# Proofs of the shortest level; the rest below.
ROLES = {
    "access": {"login.key", "login.password_refused"},
    "site_cache": {"site_cache.never_blocks"},
    "base": {
        "clock.synchronised", "clock.offset", "limits.login", "limits.service",
        "cpu.cores_per_gpu", "cpu.numa", "nic.link", "nic.errors", "nic.module",
    },
    "nic_tuning": {"nic.interrupts"},
    "rdma": {"rdma.address"},
    "nvidia_driver": {
        "gpu.answer", "gpu.alike", "gpu.ecc", "gpu.memory_repair", "gpu.throttle",
        "gpu.temperature_max", "gpu.xid", "gpu.pcie", "gpu.board", "gpu.p2p", "gpu.nvlink",
        "gpu.power_limit", "gpu.unused", "gpu.compute_mode", "gpu.pcie_replays",
        "gpu.nvlink_errors",
    },
    "cuda": {"cuda.nvcc"},
    "nccl": {
        "nccl.all_reduce.busbw", "nccl.all_reduce.correct", "nccl.interface", "nccl.transport",
    },
    "gdrcopy": {"gdrcopy.sanity"},
    "openmpi": {"openmpi.launch"},
    "nvme_cache": {"cache.write"},
    "container_runtime": {"containers.answer", "containers.gpus"},
    "nfs_client": {"nfs.server", "nfs.read"},
    "gpu_tools": {
        "nvbandwidth.host_to_device", "nvbandwidth.device_to_host", "nvbandwidth.p2p_read",
        "gpu.pcie_under_load", "gpu.throttle_under_load", "gpu.clocks_under_load", "dcgm.diag",
    },
}  # fmt: skip
LATER = {
    "base": {
        "storage.sequential_read", "storage.random_read_iops", "nic.errors_under_load",
        "memory.bandwidth", "cpu.clock_under_load", "wan.paths",
    },
    "openmpi": {"openmpi.device_buffers"},
    "nccl": {
        "nccl.all_gather.busbw", "nccl.reduce_scatter.busbw", "nccl.alltoall.busbw", "nccl.soak",
    },
    "gdrcopy": {"gdrcopy.write_bw", "gdrcopy.read_bw"},
    "nvme_cache": {"cache.scaling"},
    "nfs_client": {"nfs.read_throughput"},
    "gpu_tools": {
        "nvbandwidth.p2p_write", "nvbandwidth.p2p_bidirectional", "gpu.after_load",
        "gpu.gemm_fp16", "gpu.gemm_tf32", "gpu.gemm_results", "gpu.memory_bandwidth",
    },
}  # fmt: skip
# Asked only of a node whose site chose them; their own tests choose them, with such tools too.
CHOSEN = {"wan.paths", "openmpi.device_buffers"}
# Judged by what was read before the proofs began: no tool of theirs can fail.
READ_BEFORE = {"base/package:chrony", "base/proof:cpu.cores_per_gpu", "base/proof:cpu.numa"}


def test_every_proof_that_the_roles_carry_is_known_here() -> None:
    """Who adds a proof adds its name above, and its sabotaged twin below."""
    carried: dict[str, set[str]] = {}
    for path in (ROOT / "roles").glob("*/acceptance/test_*.py"):
        names = re.findall(r'^@pytest.mark.proof\("([^"]+)"', path.read_text(), re.MULTILINE)
        carried.setdefault(path.parent.parent.name, set()).update(names)
    assert carried == {role: names | LATER.get(role, set()) for role, names in ROLES.items()}


@pytest.mark.parametrize("role", ROLES)
class TestEveryRole:
    def test_a_healthy_node_passes(self, rack: Rack, role: str) -> None:
        found = rack.prove(role)
        assert red(found) == {}
        passed = {v.claim for v in found.verdicts.values() if v.verdict is Outcome.PASS}
        assert passed >= {f"{role}/proof:{name}" for name in ROLES[role]}
        mute = [v.claim for v in found.verdicts.values() if "/proof:" in v.claim and not v.wanted]
        assert not mute
        assert found.done["accepted"]

    @pytest.mark.parametrize(
        "answer", [Answer(rc=127), Answer(), Answer(timed_out=True, rc=124), Answer("\x00{garbage")]
    )
    def test_tools_that_are_missing_silent_hung_or_mad_pass_nothing(
        self, rack: Rack, role: str, answer: Answer
    ) -> None:
        rack.node.answers = {".": answer}
        found = rack.prove(role, offers=lambda _: ("password",))
        passed = {v.claim for v in found.verdicts.values() if v.verdict is Outcome.PASS}
        assert passed <= READ_BEFORE
        assert not found.done["accepted"]


class TestAccess:
    @pytest.mark.parametrize("way", ["password", "keyboard-interactive"])
    def test_a_login_by_password(self, rack: Rack, way: str) -> None:
        found = red(rack.prove("access", offers=lambda _: ("publickey", way)))
        assert found.keys() == {"login.password_refused"}

    def test_for_root_alone_it_is_refused_too(self, rack: Rack) -> None:
        ways = {"ops": ("publickey",), "root": ("publickey", "password")}
        found = red(rack.prove("access", offers=ways.__getitem__))
        assert "root: publickey, password" in found["login.password_refused"].read

    def test_a_login_without_anything(self, rack: Rack) -> None:
        assert red(rack.prove("access", offers=lambda _: ())).keys() == {"login.password_refused"}

    def test_no_sudo(self, rack: Rack) -> None:
        rack.says("id -u$", "1000\n")
        assert red(rack.prove("access")).keys() == {"login.key"}


class TestSiteCache:
    def test_a_script_that_tells_apt_nonsense(self, rack: Rack) -> None:
        rack.says("apt-proxy http:", "bash: timeout: command not found\n")
        assert red(rack.prove("site_cache")).keys() == {"site_cache.never_blocks"}

    def test_a_proxy_for_what_a_proxy_cannot_read(self, rack: Rack) -> None:
        rack.says("apt-proxy https:", "http://nas1:3142\n")
        assert red(rack.prove("site_cache")).keys() == {"site_cache.never_blocks"}

    def test_a_cache_that_is_down_is_noted_and_no_more(self, rack: Rack) -> None:
        conf = "/etc/apt/apt.conf.d/60nodeprep-site-cache"
        claim = File(role="site_cache", name=conf, content="x", sha256="0")
        found = rack.prove("site_cache", claims=(claim,)).proof("site_cache.never_blocks")
        assert found.verdict is Outcome.PASS
        assert "downloads for itself" in found.detail["notes"][0]


class TestBase:
    def test_a_clock_that_follows_nothing(self, rack: Rack) -> None:
        rack.says("chronyc", GOOD["chronyc"].stdout.replace("Normal", "Not synchronised"))
        assert red(rack.prove("base")).keys() == {"clock.synchronised"}

    @pytest.mark.parametrize("settles", [True, False])
    def test_a_chronyd_that_just_started_is_given_seconds(
        self, rack: Rack, tmp_path: Path, settles: bool
    ) -> None:
        good, waited = GOOD["chronyc"].stdout, tmp_path / "waited"
        (tmp_path / "good").write_text(good)
        (tmp_path / "fresh").write_text(re.sub(r"(Root dispersion *): .*", r"\1: 5.9 s", good))
        del rack.node.answers["chronyc"]
        rack.tool(
            "chronyc",
            f'case "$*" in *waitsync*) {"touch" if settles else ":"} {waited}; exit 1;; esac\n'
            f"[ -e {waited} ] && cat {tmp_path}/good || cat {tmp_path}/fresh; exit 0",
        )
        found = rack.prove("base").proof("clock.synchronised")
        assert found.verdict is (Outcome.PASS if settles else Outcome.FAIL)
        assert ("right to 5.9" in found.read) is not settles

    def test_a_clock_of_the_hosts_kernel_is_not_the_nodes(self, rack: Rack) -> None:
        found = rack.prove("base", on=profile()).proof("clock.synchronised")
        assert found.verdict is Outcome.NOT_APPLICABLE

    def test_a_clock_that_is_off(self, rack: Rack) -> None:
        rack.says(r"date \+", f"{CLOCK - 60}\n")
        assert red(rack.prove("base")).keys() == {"clock.offset"}

    def test_limits_of_a_login(self, rack: Rack) -> None:
        rack.says("env [^ ]* [^ ]* sh -c .ulimit", "8192\n8192\n1048576\n1048576\n")
        found = red(rack.prove("base"))
        assert found.keys() == {"limits.login"}
        assert "memlock" in found["limits.login"].reason

    def test_limits_of_a_service(self, rack: Rack) -> None:
        rack.says("systemd-run", "unlimited\nunlimited\n1024\n524288\n")
        assert red(rack.prove("base")).keys() == {"limits.service"}

    def test_limits_that_the_platform_cannot_raise(self, rack: Rack) -> None:
        rack.says("ulimit", "8192\n8192\n1024\n1024\n")
        found = rack.prove("base", on=profile())
        assert found.proof("limits.login").verdict is Outcome.NOT_APPLICABLE
        assert found.proof("limits.service").verdict is Outcome.NOT_APPLICABLE

    def test_no_claim_no_limit(self, rack: Rack) -> None:
        found = red(rack.prove("base", claims=CLAIMS[1:]))
        assert {"limits.login", "limits.service"} <= found.keys()


def gpu(index: int, **fields: Any) -> Callable[[Any], None]:
    """A fault of one GPU of the simulated board."""

    def change(board: Any) -> None:
        for key, value in fields.items():
            target = board["gpus"][index]
            *path, last = key.split("__")
            for part in path:
                target = target[part]
            target[last] = value

    return change


def unlinked(board: Any) -> None:
    for one, other in ((0, 1), (1, 0)):
        address = board["gpus"][other]["address"]
        next(ln for ln in board["gpus"][one]["nvlinks"] if ln["peer"] == address)["active"] = False


def errors_of_a_link(board: Any) -> None:
    board["gpus"][2]["nvlinks"][5].update(crc=90, replay=9, recovery=2)


class TestDriver:
    @pytest.mark.parametrize(
        ("fault", "names"),
        [
            (gpu(2, state="missing"), {"gpu.answer", "gpu.board", "gpu.p2p", "gpu.nvlink"}),
            (gpu(1, vbios="92.00.45.00.99"), {"gpu.alike"}),
            (gpu(1, ecc__mode=False), {"gpu.ecc"}),
            (gpu(1, ecc__volatile__dram_uncorrectable=1), {"gpu.ecc"}),
            (gpu(1, ecc__volatile__sram_uncorrectable=1), {"gpu.ecc"}),
            (gpu(1, ecc__aggregate__sram_uncorrectable=5), {"gpu.ecc"}),
            (gpu(1, remap__pending=True), {"gpu.memory_repair"}),
            (gpu(1, remap__failure=True), {"gpu.memory_repair"}),
            (gpu(3, throttle=["hw_slowdown"]), {"gpu.throttle"}),
            (gpu(3, throttle=["hw_power_brake_slowdown"]), {"gpu.throttle"}),
            (gpu(3, power__limit=250.0), {"gpu.power_limit"}),
            (gpu(3, temps__gpu=90), {"gpu.temperature_max"}),
            (gpu(0, pcie__width=8), {"gpu.pcie"}),
            (gpu(0, pcie__replays=1001), {"gpu.pcie_replays"}),
            (gpu(0, compute_mode="Prohibited"), {"gpu.compute_mode"}),
            (gpu(1, processes=[{"pid": 7, "name": "python3", "mib": 900}]), {"gpu.unused"}),
            (errors_of_a_link, {"gpu.nvlink_errors"}),
            (unlinked, {"gpu.board", "gpu.nvlink"}),
            (lambda board: board.update(p2p=False), {"gpu.p2p"}),
        ],
    )
    def test_each_fault_is_named(
        self, rack: Rack, fault: Callable[[Any], object], names: set[str]
    ) -> None:
        rack.broken(fault)
        found = red(rack.prove("nvidia_driver"))
        assert found.keys() == names
        for verdict in found.values():
            assert verdict.verdict is Outcome.FAIL
            assert verdict.wanted and verdict.read and verdict.reason, verdict

    def test_a_missing_gpu_is_named_by_its_slot(self, rack: Rack) -> None:
        rack.broken(gpu(2, state="missing"))
        found = rack.prove("nvidia_driver").proof("gpu.answer")
        assert "0000:b1:00.0" in found.read
        assert "reseat" in found.action

    @pytest.mark.parametrize("state", ["off_bus", "lost"])
    def test_a_gpu_off_the_bus_leaves_nothing_passing(self, rack: Rack, state: str) -> None:
        rack.broken(gpu(2, state=state))
        found = red(rack.prove("nvidia_driver"))
        assert {"gpu.answer", "gpu.ecc", "gpu.throttle"} <= found.keys()
        assert "bus" in found["gpu.answer"].reason

    def test_no_driver(self, rack: Rack) -> None:
        rack.broken(lambda board: board["driver"].update(not_loaded=True))
        found = red(rack.prove("nvidia_driver"))
        assert found.keys() == ROLES["nvidia_driver"]
        assert "no driver is loaded" in found["gpu.answer"].reason

    @pytest.mark.parametrize(("code", "age", "blocks"), [
        (79, 60, True), (48, 7100, True), (64, 60, True), (119, 60, True),
        (79, 7300, False), (94, 60, False), (31, 60, False),
    ])  # fmt: skip
    def test_xids_by_code_and_age(self, rack: Rack, code: int, age: int, blocks: bool) -> None:
        line = f"{CLOCK - age:.6f} gpu1 kernel: NVRM: Xid (PCI:0000:17:00): {code}, pid=1\n"
        rack.says("journalctl", line)
        found = rack.prove("nvidia_driver").proof("gpu.xid")
        assert found.verdict.blocks is blocks
        assert blocks is ("XID" in found.action or bool(found.action))

    @pytest.mark.parametrize(("asked", "blocks"), [
        ("0x0 (None) to 0x1 (GPU Reset Required)", True),
        ("0x0 (None) to 0x2 (Node Reboot Required)", True),
        ("0x2 (Node Reboot Required) to 0x0 (None)", False),
    ])  # fmt: skip
    def test_what_the_driver_asks_for_is_done_first(
        self, rack: Rack, asked: str, blocks: bool
    ) -> None:
        line = f"NVRM: Xid (PCI:0000:17:00): 154, GPU recovery action changed from {asked}"
        rack.says("journalctl", f"{CLOCK - 60:.6f} gpu1 kernel: {line}\n")
        found = rack.prove("nvidia_driver").proof("gpu.xid")
        assert found.verdict.blocks is blocks
        assert ("what the driver asks for" in found.action) is blocks

    def test_an_application_error_is_noted(self, rack: Rack) -> None:
        found = rack.prove("nvidia_driver").proof("gpu.xid")
        assert found.detail["notes"] == ["XID 94 at 0000:17:00: restart the application"]

    def test_where_the_journal_has_no_kernel_the_ring_buffer_tells(self, rack: Rack) -> None:
        rack.says("journalctl", rc=1)
        rack.says("dmesg", "2027-01-15T07:59:00,000000+00:00 NVRM: Xid (PCI:0000:17:00): 74, x\n")
        assert "gpu.xid" in red(rack.prove("nvidia_driver"))

    def test_no_log_is_unknown(self, rack: Rack) -> None:
        rack.says("journalctl")
        rack.says("dmesg", rc=1, stderr="dmesg: read kernel buffer failed")
        assert rack.prove("nvidia_driver").proof("gpu.xid").verdict is Outcome.UNKNOWN

    def test_another_board_than_the_one_rented(self, rack: Rack) -> None:
        found = red(rack.prove("nvidia_driver", on=profile("a100-pcie-40g-x4")))
        assert "mesh" in found["gpu.board"].read
        assert "another board" in found["gpu.board"].action

    def test_idle_links_are_noted(self, rack: Rack) -> None:
        rack.broken(gpu(0, pcie__gen=1))
        found = rack.prove("nvidia_driver").proof("gpu.pcie")
        assert found.verdict is Outcome.PASS
        assert "idle" in found.detail["notes"][0]


class TestCudaAndLibraries:
    def test_another_release_of_cuda(self, rack: Rack) -> None:
        rack.says("nvcc", "Cuda compilation tools, release 11.8, V11.8.89\n")
        assert "11.8" in red(rack.prove("cuda"))["cuda.nvcc"].reason

    def test_gdrcopy_that_fails_or_waives(self, rack: Rack) -> None:
        rack.says("gdrcopy_sanity", "Total: 28, Passed: 27, Failed: 1, Waived: 0\n", rc=1)
        assert rack.prove("gdrcopy").proof("gdrcopy.sanity").verdict is Outcome.FAIL
        rack.says("gdrcopy_sanity", "Total: 28, Passed: 26, Failed: 0, Waived: 2\n", rc=0)
        assert rack.prove("gdrcopy").proof("gdrcopy.sanity").verdict is Outcome.UNKNOWN

    @pytest.mark.parametrize(("passed", "waived", "outcome"), [
        (31, "basic_v2_forcepci_vmmalloc basic_with_tokens data_validation_mix_mappings_cumemalloc",
         Outcome.PASS),
        (33, "basic_with_tokens", Outcome.PASS),
        (31, "basic_v2_forcepci_vmmalloc basic_with_tokens basic_vmmalloc", Outcome.UNKNOWN),
        (31, "", Outcome.UNKNOWN),
        (0, "basic_with_tokens", Outcome.UNKNOWN),
    ])  # fmt: skip
    def test_gdrcopy_waives_what_is_for_other_platforms(
        self, rack: Rack, passed: int, waived: str, outcome: Outcome
    ) -> None:
        names = waived.split()
        count = len(names) or 3
        head = f"Total: {passed + count}, Passed: {passed}, Failed: 0, Waived: {count}\n"
        listed = "".join(f"    {name}\n" for name in names)
        rack.says("gdrcopy_sanity", f"{head}\nList of waived tests:\n{listed}\n\n")
        assert rack.prove("gdrcopy").proof("gdrcopy.sanity").verdict is outcome

    def test_mpi_that_starts_one_process(self, rack: Rack) -> None:
        rack.says("mpirun", "gpu1\n")
        assert "openmpi.launch" in red(rack.prove("openmpi"))


class TestContainerRuntime:
    def test_a_daemon_that_does_not_answer(self, rack: Rack) -> None:
        rack.says("ctr version", "Client:\n  Version:  1.6.20\n", rc=0)
        assert red(rack.prove("container_runtime")).keys() == {"containers.answer"}

    def test_a_gpu_that_no_container_can_have(self, rack: Rack) -> None:
        rack.says("cdi list", cdi_list(rack.node, without="3"))
        found = red(rack.prove("container_runtime"))["containers.gpus"]
        assert found.verdict is Outcome.FAIL

    def test_a_specification_of_other_gpus(self, rack: Rack) -> None:
        stale = cdi_list(rack.node).replace("GPU-", "GPU-0")
        rack.says("cdi list", stale)
        assert red(rack.prove("container_runtime")).keys() == {"containers.gpus"}

    def test_no_specification_at_all(self, rack: Rack) -> None:
        rack.says("cdi list", "\n")
        found = red(rack.prove("container_runtime"))["containers.gpus"]
        assert found.verdict is Outcome.UNKNOWN


class TestNccl:
    TABLE = CANNED["all_reduce_perf"]

    def test_too_slow(self, rack: Rack) -> None:
        text = self.TABLE
        for good in ("229.10", "231.40", "232.60", "233.00"):
            text = text.replace(good, " 21.40")
        rack.says("all_reduce_perf", text)
        found = red(rack.prove("nccl"))
        assert found.keys() == {"nccl.all_reduce.busbw"}
        assert found["nccl.all_reduce.busbw"].value == pytest.approx(21.4)

    def test_wrong_results(self, rack: Rack) -> None:
        rack.says("all_reduce_perf", self.TABLE.replace("233.00      0\n", "233.00      3\n"))
        found = red(rack.prove("nccl"))
        assert found["nccl.all_reduce.correct"].verdict is Outcome.FAIL

    def test_validation_off_is_not_measured(self, rack: Rack) -> None:
        rack.says("all_reduce_perf", self.TABLE.replace("      0", "    N/A"))
        found = red(rack.prove("nccl"))
        assert found["nccl.all_reduce.correct"].verdict is Outcome.UNKNOWN

    def test_fewer_gpus_than_rented(self, rack: Rack) -> None:
        lines = [line for line in self.TABLE.splitlines() if "device  3" not in line]
        rack.says("all_reduce_perf", "\n".join(lines))
        assert "3 of 4" in red(rack.prove("nccl"))["nccl.all_reduce.busbw"].reason

    def test_another_interface(self, rack: Rack) -> None:
        rack.says("all_reduce_perf", self.TABLE.replace("ens5f0:", "cni0:"))
        found = red(rack.prove("nccl"))
        assert found.keys() == {"nccl.interface"}
        assert "cni0" in found["nccl.interface"].reason

    def test_an_interface_more_than_claimed(self, rack: Rack) -> None:
        more = "[0]ens5f0:10.7.0.11<0> [1]cni0:10.244.0.1<0>"
        rack.says("all_reduce_perf", self.TABLE.replace("[0]ens5f0:10.7.0.11<0>", more))
        assert red(rack.prove("nccl")).keys() == {"nccl.interface"}

    def test_channels_through_host_memory(self, rack: Rack) -> None:
        rack.says(
            "all_reduce_perf", self.TABLE.replace("via P2P/IPC/read", "via SHM/direct/direct")
        )
        assert red(rack.prove("nccl")).keys() == {"nccl.transport"}

    def test_a_run_cut_short(self, rack: Rack) -> None:
        rack.says("all_reduce_perf", self.TABLE.partition("# Out of bounds")[0])
        assert {"nccl.all_reduce.busbw", "nccl.all_reduce.correct"} <= red(
            rack.prove("nccl")
        ).keys()

    @pytest.mark.parametrize(("text", "rc"), [("", 1), ("Test NCCL failure common.cu:958", 3)])
    def test_a_run_that_fails(self, rack: Rack, text: str, rc: int) -> None:
        rack.says("all_reduce_perf", text, rc=rc)
        found = red(rack.prove("nccl"))
        assert found.keys() == ROLES["nccl"]
        assert {verdict.verdict for verdict in found.values()} == {Outcome.UNKNOWN}

    def test_it_runs_once_for_all_proofs(self, rack: Rack) -> None:
        rack.prove("nccl")
        assert sum("all_reduce_perf" in command for command, _, _ in rack.node.ran) == 1


class TestFaultsOfTheBoard:
    """One fault in the model of the board shows in every tool that would meet it."""

    @pytest.mark.parametrize(
        ("fault", "names"),
        [
            (
                lambda board: board["performance"]["factors"].update(all_reduce=0.5),
                {"nccl.all_reduce.busbw"},
            ),
            (lambda board: board["nccl"].update(wrong=2), {"nccl.all_reduce.correct"}),
            (lambda board: board["nccl"].update(validation=False), {"nccl.all_reduce.correct"}),
            (lambda board: board["nccl"].update(interface="cni0"), {"nccl.interface"}),
            (
                lambda board: board.update(p2p=False),
                {"nccl.all_reduce.busbw", "nccl.transport", "nvbandwidth.p2p_read"},
            ),
            (unlinked, {"nccl.all_reduce.busbw", "nvbandwidth.p2p_read"}),
            (
                gpu(1, pcie__gen=3),
                {
                    "nvbandwidth.host_to_device",
                    "nvbandwidth.device_to_host",
                    "gpu.pcie_under_load",
                },
            ),
            (
                gpu(2, throttle=["hw_thermal_slowdown"]),
                {"gpu.throttle_under_load", "gpu.clocks_under_load", "nccl.all_reduce.busbw"},
            ),
        ],
    )
    def test_each_is_named(
        self, rack: Rack, fault: Callable[[Any], object], names: set[str]
    ) -> None:
        rack.broken(fault)
        found = red(accepted(job(document("nccl", "gpu_tools", on=REAL, claims=CLAIMS)), rack.node))
        assert found.keys() == names

    def test_a_lost_gpu_lets_nothing_pass(self, rack: Rack) -> None:
        rack.broken(gpu(2, state="off_bus"))
        roles = ("nvidia_driver", "nccl", "gdrcopy", "gpu_tools")
        found = accepted(job(document(*roles, on=REAL, claims=CLAIMS)), rack.node)
        passed = {v.claim for v in found.verdicts.values() if v.verdict is Outcome.PASS}
        assert passed == {"base/package:chrony"}  # the claim, judged before


class TestLocalDisks:
    def test_what_is_read_is_not_what_was_written(self, rack: Rack) -> None:
        rack.says("sha256sum", "differs\n")
        found = red(rack.prove("nvme_cache"))
        assert found.keys() == {"cache.write"}
        assert "what is read differs" in found["cache.write"].read

    def test_the_root_filesystem_where_a_volume_is_claimed(self, rack: Rack) -> None:
        rack.says("findmnt", "ext4\n")
        assert red(rack.prove("nvme_cache")).keys() == {"cache.write"}

    def test_nothing_is_mounted_there(self, rack: Rack) -> None:
        rack.says("findmnt", "", rc=1)
        assert rack.prove("nvme_cache").proof("cache.write").verdict is Outcome.UNKNOWN

    def test_a_site_without_volumes_has_nothing_to_prove(self, rack: Rack) -> None:
        found = rack.prove("nvme_cache", claims=CLAIMS[:3])
        assert red(found) == {}
        assert found.proof("cache.write").read == "no volume is claimed"

    def test_a_container_has_no_disks_of_its_own(self, rack: Rack) -> None:
        found = rack.prove("nvme_cache", on=profile())
        assert found.proof("cache.write").verdict is Outcome.NOT_APPLICABLE


class TestNfs:
    def test_a_server_that_does_not_answer(self, rack: Rack) -> None:
        rack.says("socket", "", rc=1, stderr="ConnectionRefusedError")
        found = red(rack.prove("nfs_client"))
        assert found.keys() == {"nfs.server"}
        assert "nas1" in found["nfs.server"].read

    def test_a_local_folder_where_a_mount_is_claimed(self, rack: Rack) -> None:
        rack.says("stat -f", "ext2/ext3\n")
        assert red(rack.prove("nfs_client")).keys() == {"nfs.read"}

    def test_a_mount_that_hangs(self, rack: Rack) -> None:
        rack.says("ls -A", timed_out=True, rc=124)
        assert rack.prove("nfs_client").proof("nfs.read").verdict is Outcome.UNKNOWN

    def test_a_site_without_a_nas_has_nothing_to_prove(self, rack: Rack) -> None:
        rack.node.answers = {}
        found = rack.prove("nfs_client", claims=CLAIMS[:3])
        assert red(found) == {}
        assert found.proof("nfs.server").read == "no mount is claimed"

    def test_where_nothing_can_be_mounted_the_server_must_answer_all_the_same(
        self, rack: Rack
    ) -> None:
        found = rack.prove("nfs_client", on=profile())
        assert found.proof("nfs.read").verdict is Outcome.NOT_APPLICABLE
        assert found.proof("nfs.server").verdict is Outcome.PASS


class TestBandwidth:
    @pytest.mark.parametrize(
        ("pattern", "old", "new", "name", "where"),
        [
            ("-t host_to_device", "26.12", "12.90", "nvbandwidth.host_to_device", "to GPU2"),
            ("-t device_to_host", "26.27", " 6.50", "nvbandwidth.device_to_host", "from GPU3"),
            ("-t device_to_device", "92.13", "46.00", "nvbandwidth.p2p_read", "GPU1 and GPU3"),
        ],
    )
    def test_one_slow_path_is_enough(
        self, rack: Rack, pattern: str, old: str, new: str, name: str, where: str
    ) -> None:
        rack.says(pattern, CANNED[pattern].replace(old, new))
        found = red(rack.prove("gpu_tools"))
        assert found.keys() == {name}
        assert where in found[name].read

    def test_a_path_that_was_not_measured(self, rack: Rack) -> None:
        text = CANNED["-t device_to_device"].replace("92.13", "  N/A")
        rack.says("-t device_to_device", text)
        found = red(rack.prove("gpu_tools"))
        assert "11 of 12" in found["nvbandwidth.p2p_read"].reason

    def test_without_nvlink_there_is_no_gate_and_none_is_needed(self, rack: Rack) -> None:
        parts = REAL.parts
        assert parts.gpus
        gpus = parts.gpus.model_copy(update={"board": "pcie", "nvlink": ""})
        on = REAL.model_copy(update={"parts": parts.model_copy(update={"gpus": gpus})})
        found = rack.prove("gpu_tools", on=on)
        assert found.proof("nvbandwidth.p2p_read").verdict is Outcome.NOT_APPLICABLE
