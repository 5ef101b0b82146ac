"""What a virtual machine of the lab is made of, as QEMU's arguments, and talking to QEMU.

Emulated (TCG): a lab needs no /dev/kvm. Two NUMA nodes with two CPUs each; on the first the NIC and
two NVMe disks, on the second two more. NIC and NVMe disks are plugged into a running machine: that
is what lets it start from a saved state, which QEMU refuses for a machine that has NVMe disks.
"""

from __future__ import annotations

import base64
import json
import os
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from nodeprep.errors import ToolFailure

BINARY = "qemu-system-x86_64"
CPUS = 4
QUEUES = 4
MEMORY_MIB = 512  # of each NUMA node
NUMA_NODES = 2
NVMES = 4
_BUSES = {0: 32, 1: 64}  # NUMA node -> number of its PCI bus
_TB_SIZE_MIB = 256  # QEMU's own default is a quarter of the machine's memory, for each


def memory_file(folder: Path, numa_node: int) -> Path:
    return folder / f"ram{numa_node}"


def arguments(*, name: str, memory: Path, shared: bool) -> list[str]:
    """QEMU's arguments, to be run in the machine's folder, which has its disk `root.qcow2`.

    `memory`: the folder with the files of its memory. `shared`: what it writes goes into them.
    """
    share = "on" if shared else "off"
    argv = [
        BINARY, "-name", name, "-M", "q35", "-accel", f"tcg,thread=multi,tb-size={_TB_SIZE_MIB}",
        "-cpu", "max", "-smp", f"{CPUS},sockets={NUMA_NODES},cores={CPUS // NUMA_NODES}",
        "-m", str(NUMA_NODES * MEMORY_MIB), "-nodefaults", "-no-user-config", "-display", "none",
        "-rtc", "base=utc,clock=host",
        "-chardev", "file,id=console,path=console.log", "-serial", "chardev:console",
        "-qmp", "unix:qmp.sock,server=on,wait=off",
        "-chardev", "socket,id=agent,path=agent.sock,server=on,wait=off",
        "-device", "virtio-serial-pci,bus=pcie.0",
        "-device", "virtserialport,chardev=agent,name=org.qemu.guest_agent.0",
        "-drive", "file=root.qcow2,if=none,id=root,format=qcow2,cache=unsafe,discard=unmap",
        "-device", "virtio-blk-pci,drive=root,serial=OS-DISK,bus=pcie.0,bootindex=0",
        "-object", "rng-random,id=rng,filename=/dev/urandom",
        "-device", "virtio-rng-pci,rng=rng,bus=pcie.0",
    ]  # fmt: skip
    for numa_node, bus in _BUSES.items():
        argv += [
            "-object", f"memory-backend-file,id=ram{numa_node},size={MEMORY_MIB}M,share={share},"
                       f"mem-path={memory_file(memory, numa_node)}",
            "-numa", f"node,nodeid={numa_node},cpus={2 * numa_node}-{2 * numa_node + 1},"
                     f"memdev=ram{numa_node}",
            "-device", f"pxb-pcie,id=bus{numa_node},bus=pcie.0,bus_nr={bus},numa_node={numa_node}",
        ]  # fmt: skip
    for chassis, (slot, numa_node) in enumerate(_SLOTS.items(), start=1):
        argv += ["-device", f"pcie-root-port,id={slot},bus=bus{numa_node},chassis={chassis}"]
    return argv


# Where something can be plugged in -> its NUMA node.
_SLOTS = {"nic": 0, "nvme1": 0, "nvme2": 0, "nvme3": 1, "nvme4": 1}


class Monitor:
    """QMP, or the guest's agent: one request, one answer, as lines of JSON."""

    def __init__(self, connection: socket.socket) -> None:
        self._lines = connection.makefile("rw", encoding="latin-1")

    def ask(self, command: str, **arguments: Any) -> Any:
        """What a command returns; ToolFailure with QEMU's words when it refuses."""
        request = {"execute": command, "arguments": arguments}
        try:
            self._lines.write(json.dumps(request) + "\n")
            self._lines.flush()
            while line := self._lines.readline():
                answer = json.loads(line.lstrip("\xff"))
                if "error" in answer:
                    raise ToolFailure(f"{command}: {answer['error'].get('desc', answer['error'])}")
                if "return" in answer:
                    return answer["return"]
        except (OSError, ValueError) as problem:
            raise ToolFailure(f"{command}: {problem or 'no answer'}") from None
        raise ToolFailure(f"{command}: the machine hung up")

    def synchronise(self) -> None:
        """With a guest's agent: pass over what an earlier talk left, and errors about it."""
        token = time.monotonic_ns() % 2**53
        sync = {"execute": "guest-sync-delimited", "arguments": {"id": token}}
        try:
            self._lines.write("\xff" + json.dumps(sync) + "\n")
            self._lines.flush()
            while line := self._lines.readline():
                if json.loads(line.lstrip("\xff")).get("return") == token:
                    return
        except (OSError, ValueError) as problem:
            raise ToolFailure(f"the agent does not answer: {problem}") from None
        raise ToolFailure("the agent hung up")


@contextmanager
def _connected(path: Path, timeout_s: float) -> Iterator[socket.socket]:
    # A socket's path has 107 characters at most; a folder that is held open shortens any.
    folder = os.open(path.parent, os.O_PATH)
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.settimeout(timeout_s)
            made.connect(f"/proc/self/fd/{folder}/{path.name}")
            yield made
    except OSError as problem:
        raise ToolFailure(f"{path}: {problem}") from None
    finally:
        os.close(folder)


@contextmanager
def monitor(folder: Path, timeout_s: float = 60) -> Iterator[Monitor]:
    """QEMU's own monitor of the machine in `folder`."""
    with _connected(folder / "qmp.sock", timeout_s) as made:
        found = Monitor(made)
        found._lines.readline()  # its greeting
        found.ask("qmp_capabilities")
        yield found


def wait_for_monitor(folder: Path, timeout_s: float = 30) -> None:
    """Until a machine that was just started can be talked to; ToolFailure when it is not."""
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            with monitor(folder):
                return
        except ToolFailure:
            if time.monotonic() > deadline:
                log = folder / "qemu.log"
                raise ToolFailure(f"QEMU does not start; see {log}") from None
        time.sleep(0.05)


@contextmanager
def agent(folder: Path, timeout_s: float = 30) -> Iterator[Monitor]:
    """The agent that runs in the guest. What an earlier talk left unread is passed over."""
    with _connected(folder / "agent.sock", timeout_s) as made:
        found = Monitor(made)
        found.synchronise()
        yield found


def answers(folder: Path, timeout_s: float = 3) -> bool:
    """Whether the guest's agent answers."""
    try:
        with agent(folder, timeout_s):
            return True
    except ToolFailure:
        return False


def wait_for_agent(folder: Path, timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    while not answers(folder):
        if time.monotonic() > deadline:
            raise ToolFailure(
                f"{folder.name}: the machine does not answer after {timeout_s:.0f} s",
                hint=f"see {folder / 'console.log'}",
            )
        time.sleep(0.3)


def execute(
    folder: Path, argv: Sequence[str], env: Sequence[str], text: str, timeout_s: float
) -> tuple[int, str, str]:
    """Run a command in the guest through its agent: exit status, stdout, stderr.

    ToolFailure when it takes longer than `timeout_s`, or when the agent does not answer.
    """
    deadline = time.monotonic() + timeout_s
    with agent(folder) as guest:
        started = guest.ask(
            "guest-exec",
            **{"path": argv[0], "arg": list(argv[1:]), "env": list(env), "capture-output": True,
               "input-data": base64.b64encode(text.encode()).decode()},
        )  # fmt: skip
        pause = 0.02
        while not (now := guest.ask("guest-exec-status", pid=started["pid"]))["exited"]:
            if time.monotonic() > deadline:
                raise ToolFailure(f"`{argv[0]}` took more than {timeout_s:.0f} s")
            time.sleep(pause)
            pause = min(0.5, pause * 2)
    code = now.get("exitcode", 128 + now.get("signal", 0))
    return code, _decoded(now.get("out-data", "")), _decoded(now.get("err-data", ""))


def _decoded(data: str) -> str:
    return base64.b64decode(data).decode("utf-8", "replace")


def save_state(folder: Path, target: Path) -> None:
    """Stop the machine and save all but its memory, whose files are the other half."""
    with monitor(folder, 300) as machine:
        _leave_memory_out(machine)
        machine.ask("stop")
        machine.ask("migrate", uri=f"exec:cat > {target}")
        while (now := machine.ask("query-migrate"))["status"] not in ("completed", "failed"):
            time.sleep(0.05)
        if now["status"] == "failed":
            raise ToolFailure(f"QEMU saved no state: {now.get('error-desc', 'it says not why')}")
        machine.ask("quit")


def load_state(folder: Path, source: Path) -> None:
    """Go on from a saved state. For a machine started with `-incoming defer`."""
    with monitor(folder, 120) as machine:
        _leave_memory_out(machine)
        machine.ask("migrate-incoming", uri=f"exec:cat {source}")
        while machine.ask("query-status")["status"] != "running":
            now = machine.ask("query-migrate")
            if now.get("status") == "failed":
                raise ToolFailure(f"QEMU loads no state: {now.get('error-desc', '')}")
            if now.get("status") == "completed":
                machine.ask("cont")
            time.sleep(0.02)


def _leave_memory_out(machine: Monitor) -> None:
    ignore = {"capability": "x-ignore-shared", "state": True}
    machine.ask("migrate-set-capabilities", capabilities=[ignore])


def plug_in(folder: Path, *, mac: str, tap: str, disks: Sequence[tuple[str, str]]) -> None:
    """Plug NIC and NVMe disks (file name in the folder, serial) into a running machine."""
    with monitor(folder) as machine:
        for number, (file, serial) in enumerate(disks, start=1):
            machine.ask(
                "blockdev-add",
                **{"driver": "raw", "node-name": f"disk{number}", "discard": "unmap",
                   "file": {"driver": "file", "filename": file}},
            )  # fmt: skip
            machine.ask(
                "device_add", driver="nvme", id=f"nvme-{number}", drive=f"disk{number}",
                serial=serial, bus=f"nvme{number}",
            )  # fmt: skip
        machine.ask(
            "human-monitor-command",
            **{"command-line": f"netdev_add tap,id=net,ifname={tap},script=no,downscript=no,"
                               f"queues={QUEUES}"},
        )  # fmt: skip
        machine.ask(
            "device_add", driver="virtio-net-pci", id="card", netdev="net", mac=mac, bus="nic",
            mq=True, vectors=2 * QUEUES + 2, speed=10_000, duplex="full",
        )  # fmt: skip


def plugged_in(*, mac: str, tap: str, disks: Sequence[tuple[str, str]]) -> list[str]:
    """The same as arguments, for a machine that boots."""
    argv = [
        "-netdev", f"tap,id=net,ifname={tap},script=no,downscript=no,queues={QUEUES}",
        "-device", f"virtio-net-pci,id=card,netdev=net,mac={mac},bus=nic,mq=on,"
                   f"vectors={2 * QUEUES + 2},speed=10000,duplex=full,romfile=",
    ]  # fmt: skip
    for number, (file, serial) in enumerate(disks, start=1):
        argv += [
            "-drive", f"file={file},if=none,id=disk{number},format=raw,cache=unsafe,discard=unmap",
            "-device", f"nvme,id=nvme-{number},drive=disk{number},serial={serial},"
                       f"bus=nvme{number}",
        ]  # fmt: skip
    return argv
