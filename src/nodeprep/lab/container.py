"""A node of the fast tier: a container with an overlay over the image as its root."""

from __future__ import annotations

import contextlib
import json
import secrets
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nodeprep.errors import ToolFailure
from nodeprep.lab import cgroups, names, network, processes, shell
from nodeprep.lab.sim import board as boards
from nodeprep.lab.state import LabDir, LabState, NodeState

_NSPAWN = Path("/run/systemd/nspawn")
_REBOOT = 133  # systemd-nspawn's exit status when the node asked for a reboot
_KEY_TYPES = ("ed25519", "ecdsa")  # an RSA key costs a third of a second, and nobody prefers it
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_ENV = {
    # Each node sees a pure cgroup v2, as on Ubuntu 22.04, whatever this machine has.
    "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY": "1",
    # net.* sysctls belong to the node's own namespace: writable.
    "SYSTEMD_NSPAWN_API_VFS_WRITABLE": "network",
    # Nobody else starts these roots, and a lock file would stay behind.
    "SYSTEMD_NSPAWN_LOCK": "0",
}
# The clock and the disks are this machine's own: nodes may touch neither. NET_ADMIN is what
# systemd-networkd needs, and nspawn withholds it for a namespace that it did not make.
_GRANTED = "CAP_NET_ADMIN,CAP_IPC_LOCK"
_DENIED = "CAP_MKNOD,CAP_SYS_TIME"
_LESSER = "-mknod,-sys_time,-sys_module,-sys_rawio,-syslog"


def make(lab: LabDir, spec: LabState, node: NodeState) -> None:
    """A fresh root, mounted, and a network namespace."""
    folder = lab.node(node.name)
    root = folder / "root"
    network.make_node(lab.name, node.name)
    if not (folder / "ready").exists():
        shell.remove_tree(folder)
        for part in ("upper", "work", "root"):
            (folder / part).mkdir(parents=True)
        _mount(spec, folder)
        _personalise(root, lab, node)
        (folder / "ready").touch()
    elif not root.is_mount():
        _mount(spec, folder)


def _mount(spec: LabState, folder: Path) -> None:
    lower = ":".join(str(Path(layer) / "root") for layer in (spec.sim, spec.base))
    options = f"lowerdir={lower},upperdir={folder / 'upper'},workdir={folder / 'work'}"
    shell.run(["mount", "-t", "overlay", "overlay", "-o", options, folder / "root"])


def _personalise(root: Path, lab: LabDir, node: NodeState) -> None:
    """What is this node's alone: name, address, host keys, root password, board."""
    name = str(node.name)
    (root / "etc/hostname").write_text(f"{name}\n")
    (root / "etc/hosts").write_text(f"127.0.0.1 localhost\n127.0.1.1 {name}\n")
    (root / "etc/machine-id").write_text(secrets.token_hex(16) + "\n")
    network_file = root / "etc/systemd/network/10-provider.network"
    address = f"Address={node.name.address}/{names.PREFIX_LENGTH}\n"
    network_file.write_text(network_file.read_text() + address)
    new_host_keys(lab, node)
    shell.run(["chroot", root, "chpasswd"], text=f"root:{lab.password()}\n")
    write_board(lab, node, boards.new(node.board, seed=name))


def new_host_keys(lab: LabDir, node: NodeState) -> None:
    root = _root(lab, node)
    for key in (root / "etc/ssh").glob("ssh_host_*"):
        key.unlink()
    for kind in _KEY_TYPES:
        file = root / f"etc/ssh/ssh_host_{kind}_key"
        common = ["ssh-keygen", "-q", "-N", "", "-C", "root@server"]
        shell.run([*common, "-t", kind, "-f", file])


def _root(lab: LabDir, node: NodeState) -> Path:
    return lab.node(node.name) / "root"


def _board(lab: LabDir, node: NodeState) -> Path:
    return _root(lab, node) / boards.STATE.lstrip("/")


def read_board(lab: LabDir, node: NodeState) -> dict[str, Any]:
    board: dict[str, Any] = json.loads(_board(lab, node).read_text())
    return board


def write_board(lab: LabDir, node: NodeState, board: Mapping[str, Any]) -> None:
    shell.write_atomic(_board(lab, node), json.dumps(board, indent=1) + "\n")


def start(lab: LabDir, _spec: LabState, node: NodeState) -> None:
    """A starter process boots it, and boots it again when it asks for a reboot."""
    name = str(node.name)
    folder = lab.node(node.name)
    netns = names.node_netns(lab.name, node.name)
    nspawn = [
        "systemd-nspawn",
        "--quiet",
        f"--directory={folder / 'root'}",
        "--boot",
        "--register=no",
        "--keep-unit",
        f"--machine={netns}",
        f"--hostname={name}",
        f"--network-namespace-path={network.path_of(netns)}",
        f"--capability={_GRANTED}",
        f"--drop-capability={_DENIED}",
        "--resolv-conf=off",
        "--timezone=off",
        "--link-journal=no",
        "--console=passive",
    ]
    groups = cgroups.make(lab.name, name)
    joins = "".join(f"echo $$ > {group}/cgroup.procs; " for group in groups)
    settings = (f"{key}={value}" for key, value in _ENV.items())
    again = f'while :; do sh -c \'{joins}exec "$@"\' sh "$@"; [ $? = {_REBOOT} ] || exit; done'
    processes.spawn(
        ["env", *settings, "sh", "-c", again, "sh", *nspawn],
        record=lab.pid(name),
        log=folder / "console.log",
        cgroups=cgroups.make(lab.name, cgroups.SERVICES),
    )


def running(lab: LabDir, node: NodeState) -> bool:
    """Whether its starter lives."""
    return processes.load(lab.pid(str(node.name))) is not None


def stop(lab: LabDir, node: NodeState) -> None:
    """The starter first, so that it does not start the node again."""
    record = lab.pid(str(node.name))
    if starter := processes.load(record):
        processes.kill([starter])
    cgroups.kill(lab.name, str(node.name))
    record.unlink(missing_ok=True)


def forget(lab: LabDir) -> None:
    """Remove the (empty) folders that systemd-nspawn makes per machine and leaves."""
    for folder in _NSPAWN.glob(f"*/{names.lab_netns(lab.name)}-*"):
        shell.remove_tree(folder)


def wipe(lab: LabDir, node: NodeState) -> None:
    shell.remove_tree(lab.node(node.name))


def leader(lab: LabDir, node: NodeState) -> int:
    """The pid, on this machine, of the node's systemd."""
    for pid in sorted(cgroups.members(lab.name, str(node.name))):
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{pid}/status").read_text().splitlines():
                if line.startswith("NSpid:") and line.split()[2:] == ["1"]:
                    return pid
    raise ToolFailure(
        f"{node.name} is not running", hint=f"start it: nodeprep lab up --name {lab.name}"
    )


def _command(lab: LabDir, node: NodeState, argv: Sequence[str]) -> list[str]:
    """The argument list that runs `argv` as root inside a node, in a clean environment."""
    groups = cgroups.make(lab.name, f"{node.name}/payload/exec")
    joins = "".join(f"echo $$ > {group}/cgroup.procs; " for group in groups)
    spaces = ["--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup"]
    enter = ["nsenter", f"--target={leader(lab, node)}", *spaces, "--wdns=/root", "--"]
    # No more power than the node's own root has.
    lesser = ["setpriv", f"--bounding-set={_LESSER}"]
    clean = ["env", "-i", f"PATH={_PATH}", "HOME=/root", "LANG=C.UTF-8", "TERM=dumb"]
    return ["sh", "-c", f'{joins}exec "$@"', "sh", *enter, *lesser, *clean, *argv]


def attach(lab: LabDir, node: NodeState, argv: Sequence[str]) -> int:
    return subprocess.run(_command(lab, node, argv), check=False).returncode


def run(
    lab: LabDir, node: NodeState, argv: Sequence[str], text: str, timeout_s: float
) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            _command(lab, node, argv),
            input=text,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ToolFailure(f"{node.name}: `{argv[0]}` took more than {timeout_s:.0f} s") from None
