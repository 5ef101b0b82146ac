"""Targets: private sshd processes of this machine on loopback addresses of their own.

They share the machine's files. Started as root each has a mount namespace in which a scratch folder
stands at /etc/sysctl.d and a stand-in `systemctl` in /usr/local/sbin: the machine itself is not
changed. The system's own sshd, its keys and its configuration are not touched.
"""

from __future__ import annotations

import contextlib
import getpass
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

PORT = 2222
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_TICKS = os.sysconf("SC_CLK_TCK")
_CONFIG = """\
Port {port}
ListenAddress {address}
HostKey {folder}/host_key
PidFile none
AuthorizedKeysFile {folder}/authorized_keys
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
StrictModes no
MaxStartups 500:30:1000
MaxSessions 100
UseDNS no
PrintMotd no
SetEnv PATH={path}
Subsystem sftp internal-sftp
"""
_ENTER = """\
set -e
mount --bind "$1/sysctl.d" /etc/sysctl.d
mount --bind "$1/bin" /usr/local/sbin
if [ ! -d /run/sshd ]; then mount -t tmpfs none /run; mkdir -m 755 /run/sshd; fi
shift
exec "$@"
"""


@dataclass(frozen=True)
class Target:
    name: str
    address: str
    process: subprocess.Popen[bytes]


@dataclass(frozen=True)
class Rack:
    """Running targets, and how to log in to them as this user."""

    folder: Path
    targets: tuple[Target, ...]

    @property
    def user(self) -> str:
        return getpass.getuser()

    @property
    def key_file(self) -> Path:
        return self.folder / "id"

    def known_hosts(self) -> str:
        key = " ".join((self.folder / "host_key.pub").read_text().split()[:2])
        return "".join(f"[{t.address}]:{PORT} {key}\n" for t in self.targets)

    def cpu_s(self) -> float:
        """CPU seconds that the targets and all their ended sessions have used."""
        return sum(_cpu_s(target.process.pid) for target in self.targets)


def isolated() -> bool:
    """Whether targets can have a mount namespace of their own."""
    return os.geteuid() == 0 and shutil.which("unshare") is not None


@contextlib.contextmanager
def rack(folder: Path, count: int) -> Iterator[Rack]:
    """`count` targets; `folder` holds their keys, `sysctl.d` and `bin`. All end with the block."""
    _keys(folder)
    base = _free_net(count)
    started: list[Target] = []
    with (folder / "sshd.log").open("ab") as log:
        try:
            for number in range(1, count + 1):
                target = _start(folder, f"bench-{number:03}", f"{base}.{number}", log)
                started.append(target)  # at once: should the next fail, this one must end
            for target in started:
                _wait_for(target, folder / "sshd.log")
            yield Rack(folder, tuple(started))
        finally:
            for target in started:
                target.process.terminate()
            for target in started:
                target.process.wait()


def _keys(folder: Path) -> None:
    for name in ("host_key", "id"):
        if not (folder / name).exists():
            command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)]
            subprocess.run(command, check=True)
    shutil.copy(folder / "id.pub", folder / "authorized_keys")


def _free_net(count: int) -> str:
    """A 127.78.x of which the port is free at the first and the last address that are wanted."""
    start = os.getpid() % 250
    for octet in (*range(start, 250), *range(start)):
        with contextlib.ExitStack() as stack, contextlib.suppress(OSError):
            for last in {1, count}:
                sock = stack.enter_context(socket.socket())
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                sock.bind((f"127.78.{octet}.{last}", PORT))
            return f"127.78.{octet}"
    raise RuntimeError("no free addresses in 127.78.0.0/16")


def _start(folder: Path, name: str, address: str, log: IO[bytes]) -> Target:
    config = folder / f"{name}.conf"
    config.write_text(_CONFIG.format(port=PORT, address=address, folder=folder, path=PATH))
    sshd = shutil.which("sshd", path=PATH)
    if sshd is None:
        raise RuntimeError("there is no sshd on this machine (package openssh-server)")
    command = [sshd, "-D", "-e", "-f", str(config)]
    if isolated():
        inside = ["sh", "-c", _ENTER, "target", str(folder), *command]
        command = ["unshare", "--mount", "--propagation", "private", *inside]
    return Target(name, address, subprocess.Popen(command, stdout=log, stderr=log))


def _wait_for(target: Target, log: Path, patience_s: float = 20) -> None:
    end = time.monotonic() + patience_s
    while time.monotonic() < end and target.process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection((target.address, PORT), 1):
            return
        time.sleep(0.05)
    raise RuntimeError(f"target {target.name} did not start: {log.read_text()[-500:]}")


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / _TICKS  # utime, stime, cutime, cstime
