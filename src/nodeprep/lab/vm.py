"""A node of the vm tier: a virtual machine with a kernel, NVMe disks, interrupts, a boot loader.

A fresh one goes on from the warm machine that `disk` keeps, so that it answers in seconds; after
that it boots as any machine does, from its own disk.

    nodes/<node>/  root.qcow2  nvme1 … nvme4  console.log  qmp.sock  agent.sock
"""

from __future__ import annotations

import json
import secrets
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

from nodeprep.errors import ToolFailure
from nodeprep.lab import cgroups, names, network, processes, qemu, shell, superblock
from nodeprep.lab.locks import locked
from nodeprep.lab.sim import board as boards
from nodeprep.lab.state import LabDir, LabState, NodeState

EXPORT = "/export/training"
_NVME_MIB = 1024
_WAKE_TIMEOUT_S = 180
_ENV = (
    "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME=/root",
    "LANG=C.UTF-8",
    "TERM=dumb",
)
# Beside the files of a container: the clock stood still while the machine was saved, and what the
# kernel said before it had a name belongs into its own journal.
_PERSONALISE = """\
date --set=@{now} >/dev/null
echo {name} > /etc/hostname
hostname {name}
printf '127.0.0.1 localhost\\n127.0.1.1 {name}\\n' > /etc/hosts
echo {machine_id} > /etc/machine-id
rm -f /run/systemd/journal/kernel-seqnum
systemctl restart systemd-journald
echo 'Address={address}/{prefix}' >> /etc/systemd/network/10-provider.network
networkctl reload
{host_keys}
"""
_HOST_KEYS = """\
rm -f /etc/ssh/ssh_host_*
ssh-keygen -q -N '' -C root@server -t ed25519 -f /etc/ssh/ssh_host_ed25519_key
ssh-keygen -q -N '' -C root@server -t ecdsa -f /etc/ssh/ssh_host_ecdsa_key
systemctl restart ssh
"""
_SERVE_NFS = f"""\
mkdir -p {EXPORT}
head -c 4194304 /dev/urandom > {EXPORT}/shard-0000
echo '{EXPORT} 10.77.0.0/16(rw,async,no_subtree_check,no_root_squash)' > /etc/exports
mkdir -p /etc/systemd/system/nfs-server.service.d
cat > /etc/systemd/system/nfs-server.service.d/blocks.conf <<'END'
# By itself a server this small offers blocks of 128 KiB; a storage server has the memory for 1 MiB.
[Service]
ExecStartPre=-/bin/sh -c 'echo 1048576 > /proc/fs/nfsd/max_block_size'
END
systemctl daemon-reload
systemctl enable --now nfs-server
"""


def make(lab: LabDir, _spec: LabState, node: NodeState) -> None:
    """A folder with its disks."""
    folder = lab.node(node.name)
    network.make_port(lab.name, node.name, qemu.QUEUES)
    if (folder / "ready").exists():
        return
    shell.remove_tree(folder)
    folder.mkdir(parents=True)
    for file, _serial in _disks(node):
        with (folder / file).open("wb") as stream:
            stream.truncate(_NVME_MIB << 20)
    if node.name.kind == "gpu":
        _soil(folder)
    (folder / "ready").touch()


def _soil(folder: Path) -> None:
    """Rented disks are not empty: the third was somebody's, the fourth a member of an array."""
    foreign = folder / "foreign"
    foreign.mkdir()
    (foreign / "thesis.txt").write_text("Not yours.\n")
    shell.run(["mkfs.ext4", "-q", "-F", "-L", "home", "-d", foreign, folder / "nvme3"])
    shell.remove_tree(foreign)
    superblock.write(folder / "nvme4", name="oldhost:scratch", size_bytes=_NVME_MIB << 20)


def _disks(node: NodeState) -> list[tuple[str, str]]:
    """File and serial of every NVMe disk."""
    count = qemu.NVMES if node.name.kind == "gpu" else 1
    return [(f"nvme{n}", f"NVME-{str(node.name).upper()}-{n}") for n in range(1, count + 1)]


def _plugs(node: NodeState) -> dict[str, Any]:
    last = int(node.name.address.rpartition(".")[2])
    return {"mac": f"52:54:00:4e:50:{last:02x}", "tap": str(node.name), "disks": _disks(node)}


def start(lab: LabDir, spec: LabState, node: NodeState) -> None:
    """Go on from the warm machine the first time; boot from its own disk ever after."""
    folder = lab.node(node.name)
    if (folder / "root.qcow2").exists():
        _launch(lab, spec, node, qemu.plugged_in(**_plugs(node)))
        return
    warm = Path(spec.warm)
    root = folder / "root.qcow2"
    shell.run(["qemu-img", "create", "-q", "-f", "qcow2", "-b", warm / root.name, "-F", "qcow2",
               root])  # fmt: skip
    try:
        _launch(lab, spec, node, ["-incoming", "defer"])
        qemu.load_state(folder, warm / "state")
        qemu.plug_in(folder, **_plugs(node))
        qemu.wait_for_agent(folder, _WAKE_TIMEOUT_S)
        _personalise(lab, node)
    except BaseException:
        stop(lab, node)
        root.unlink(missing_ok=True)  # half made: the next start makes it anew
        raise


def _launch(lab: LabDir, spec: LabState, node: NodeState, more: Sequence[str]) -> None:
    folder = lab.node(node.name)
    name = f"np-{lab.name}-{node.name}"
    inside = f"--net={network.path_of(names.lab_netns(lab.name))}"
    argv = qemu.arguments(name=name, memory=Path(spec.warm), shared=False)
    for socket in ("qmp.sock", "agent.sock"):
        (folder / socket).unlink(missing_ok=True)
    processes.spawn(
        ["nsenter", inside, "env", "-C", str(folder), *argv, *more],
        record=lab.pid(str(node.name)),
        log=folder / "qemu.log",
        cgroups=cgroups.make(lab.name, cgroups.SERVICES),
    )
    qemu.wait_for_monitor(folder)


def _personalise(lab: LabDir, node: NodeState) -> None:
    """What is this node's alone: name, address, host keys, root password, board."""
    script = _PERSONALISE.format(
        now=f"{time.time():.3f}",
        name=node.name,
        machine_id=secrets.token_hex(16),
        address=node.name.address,
        prefix=names.PREFIX_LENGTH,
        host_keys=_HOST_KEYS,
    )
    if node.name.kind == "nas":
        script += _SERVE_NFS
    _script(lab, node, script)
    _checked(lab, node, ["chpasswd"], f"root:{lab.password()}\n")
    write_board(lab, node, boards.new(node.board, seed=str(node.name)))


def running(lab: LabDir, node: NodeState) -> bool:
    """Whether QEMU runs: it ends when the machine powers itself off."""
    return processes.load(lab.pid(str(node.name))) is not None


def stop(lab: LabDir, node: NodeState) -> None:
    record = lab.pid(str(node.name))
    if machine := processes.load(record):
        processes.kill([machine])
    record.unlink(missing_ok=True)


def wipe(lab: LabDir, node: NodeState) -> None:
    shell.remove_tree(lab.node(node.name))


def new_host_keys(lab: LabDir, node: NodeState) -> None:
    _script(lab, node, _HOST_KEYS)


def read_board(lab: LabDir, node: NodeState) -> dict[str, Any]:
    board: dict[str, Any] = json.loads(_checked(lab, node, ["cat", boards.STATE]).stdout)
    return board


def write_board(lab: LabDir, node: NodeState, board: Mapping[str, Any]) -> None:
    text = json.dumps(board, indent=1) + "\n"
    file = boards.STATE
    write = f"mkdir -p $(dirname {file}) && cat > {file}.new && mv {file}.new {file}"
    _checked(lab, node, ["sh", "-e", "-c", write], text)


def _script(lab: LabDir, node: NodeState, text: str) -> None:
    _checked(lab, node, ["sh", "-e", "-s"], text)


def _checked(
    lab: LabDir, node: NodeState, argv: Sequence[str], text: str = ""
) -> CompletedProcess[str]:
    done = run(lab, node, argv, text, 120)
    if done.returncode != 0:
        raise ToolFailure(f"{node.name}: `{argv[0]}` failed: {done.stderr.strip()[-500:]}")
    return done


def run(
    lab: LabDir, node: NodeState, argv: Sequence[str], text: str, timeout_s: float
) -> CompletedProcess[str]:
    if not running(lab, node):
        raise ToolFailure(
            f"{node.name} is not running", hint=f"start it: nodeprep lab up --name {lab.name}"
        )
    # `env` finds the command on the path; the agent would want its full name.
    words = ["/usr/bin/env", "-C", "/root", "--", *argv]
    with locked(lab.node(node.name) / ".agent.lock"):  # the agent talks to one at a time
        code, out, err = qemu.execute(lab.node(node.name), words, _ENV, text, timeout_s)
    return CompletedProcess(list(argv), code, out, err)


def attach(lab: LabDir, node: NodeState, argv: Sequence[str]) -> int:
    """The agent has no terminal: what was printed comes when the command has ended."""
    text = "" if sys.stdin.isatty() else sys.stdin.read()
    done = run(lab, node, argv, text, 3600)
    sys.stdout.write(done.stdout)
    sys.stderr.write(done.stderr)
    return done.returncode
