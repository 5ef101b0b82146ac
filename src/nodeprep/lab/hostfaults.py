"""Faults of a node that have nothing to do with its hardware: what rented servers do to people.

Each is real on the node (nothing pretends to a client), can be seen, and can be taken back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from nodeprep.errors import BadInput
from nodeprep.lab import netfaults, node
from nodeprep.lab.state import LabDir, NodeState

Args = Mapping[str, str]
Action = Callable[[LabDir, NodeState, Args], None]

_OVERLAID = ("/etc", "/home", "/opt", "/root", "/srv", "/tmp", "/usr", "/var")  # noqa: S108
_FULL = "/run/nodeprep-full"
_NOISE_MARK = "nodeprep-lab-noise"
# TEST-NET-1 (RFC 5737): nothing answers there.
_NO_SERVER = "nameserver 192.0.2.53\noptions timeout:1 attempts:1\n"
_RESOLVER_KEPT = "/etc/resolv.conf.nodeprep-lab"
_PYTHONS = ("python3", "python3-minimal", "python3.11", "python3.11-minimal", "python3-apt")


@dataclass(frozen=True)
class HostFault:
    """`defaults`: the arguments it takes and what they are when not given, as text."""

    name: str
    summary: str
    inject: Action
    clear: Action
    defaults: Mapping[str, str] = field(default_factory=dict)


def _nothing(_lab: LabDir, _one: NodeState, _args: Args) -> None:
    """The forwarder does it: it is told by the lab's state."""


def _script(lab: LabDir, one: NodeState, text: str, *, timeout_s: float = 120) -> None:
    node.execute(lab, one, ["sh", "-e", "-s"], text=text, timeout_s=timeout_s)


def _no_python(lab: LabDir, one: NodeState, _args: Args) -> None:
    # As a provider's smallest image: dpkg knows that it is gone, so apt can bring it.
    _script(lab, one, f"dpkg --remove --force-depends {' '.join(_PYTHONS)} >/dev/null 2>&1")


def _python_back(lab: LabDir, one: NodeState, _args: Args) -> None:
    install = "DEBIAN_FRONTEND=noninteractive apt-get -qq install -y"
    _script(lab, one, f"apt-get -qq update\n{install} {' '.join(_PYTHONS)} >/dev/null\n")


def _disk_full(lab: LabDir, one: NodeState, _args: Args) -> None:
    # What is there stays readable; every write lands on a filesystem without a free block.
    lines = [
        f"mkdir -p {_FULL}",
        f"mount -t tmpfs -o size=256k,mode=0755 full {_FULL}",
    ]
    for path in _OVERLAID:
        layer = f"{_FULL}{path}"
        lines += [f"mkdir -p {layer}/up {layer}/work"]
    lines += [f"dd if=/dev/zero of={_FULL}/ballast bs=4k 2>/dev/null || true"]
    for path in _OVERLAID:
        layer = f"{_FULL}{path}"
        options = f"lowerdir={path},upperdir={layer}/up,workdir={layer}/work"
        lines.append(f"mount -t overlay full -o {options} {path}")
    lines += [
        f"dd if=/dev/zero of={_FULL}/ballast bs=1k oflag=append conv=notrunc 2>/dev/null || :"
    ]
    _script(lab, one, "\n".join(lines) + "\n")


def _disk_freed(lab: LabDir, one: NodeState, _args: Args) -> None:
    # A reboot takes it back as well: then nothing is mounted any more.
    lines = [f"umount -l {path} 2>/dev/null || true" for path in reversed((_FULL, *_OVERLAID))]
    _script(lab, one, "\n".join(lines) + f"\nrm -rf --one-file-system {_FULL}\n")


def _apt_lock_held(lab: LabDir, one: NodeState, args: Args) -> None:
    # apt and dpkg lock with fcntl: flock(1) would not be seen.
    holder = (
        "import fcntl, time\n"
        "paths = ('/var/lib/dpkg/lock-frontend', '/var/lib/dpkg/lock', '/var/lib/apt/lists/lock')\n"
        "held = [open(path, 'w') for path in paths]\n"
        "[fcntl.lockf(one, fcntl.LOCK_EX) for one in held]\n"
        "open('/run/nodeprep-apt-lock', 'w').close()\n"
        f"time.sleep({float(args['seconds'])})\n"
    )
    unit = "systemd-run --quiet --collect --unit=apt-daily-stuck"
    _script(
        lab,
        one,
        "rm -f /run/nodeprep-apt-lock\n"
        f'{unit} /usr/bin/python3 -c "{holder}"\n'
        "for _ in $(seq 100); do\n"
        "  [ -e /run/nodeprep-apt-lock ] && exit 0\n"
        "  sleep 0.1\n"
        "done\n"
        "exit 1\n",
    )


def _apt_lock_released(lab: LabDir, one: NodeState, _args: Args) -> None:
    _script(lab, one, "systemctl stop apt-daily-stuck.service 2>/dev/null || true\n")


def _no_dns(lab: LabDir, one: NodeState, _args: Args) -> None:
    keep = f"cp /etc/resolv.conf {_RESOLVER_KEPT}\n"
    _script(lab, one, f"{keep}cat > /etc/resolv.conf <<'END'\n{_NO_SERVER}END\n")


def _dns_back(lab: LabDir, one: NodeState, _args: Args) -> None:
    _script(lab, one, f"cat {_RESOLVER_KEPT} > /etc/resolv.conf\nrm {_RESOLVER_KEPT}\n")


def _host_key_changed(lab: LabDir, one: NodeState, _args: Args) -> None:
    node.new_host_keys(lab, one)
    _script(lab, one, "systemctl restart ssh\n")


def _noisy_output(lab: LabDir, one: NodeState, args: Args) -> None:
    # sshd runs sshrc before every command, and what it prints goes to the client.
    size = int(float(args["megabytes"]) * 1024 * 1024)
    line = r"\033[31;1m*** \007 NOTICE: scheduled maintenance \033[0m\033]0;title\007\r"
    text = (
        f"# {_NOISE_MARK}\n"
        f"yes \"$(printf '{line}')\" | head -c {size}\n"
        f"yes \"$(printf '{line}')\" | head -c {min(size, 65536)} >&2\n"
    )
    _script(lab, one, f"cat > /etc/ssh/sshrc <<'END'\n{text}END\n")


def _quiet(lab: LabDir, one: NodeState, _args: Args) -> None:
    _script(lab, one, f"if grep -qs {_NOISE_MARK} /etc/ssh/sshrc; then rm /etc/ssh/sshrc; fi\n")


# A driver's bug: with other rings than those of now, the interface loses its link. It stands before
# ethtool, the stand-in or the real one, which is kept in a folder of its own.
_NIC_HOOK = "/usr/local/sbin/ethtool"
_NIC_KEPT = "/var/lib/nodeprep-lab-ethtool"
_NIC_SCRIPT = f"""\
#!/bin/sh
# nodeprep-lab: a driver that loses its link with other rings than it had
real={_NIC_KEPT}/bin/ethtool
[ -e "$real" ] || real=/usr/sbin/ethtool
"$real" "$@"
code=$?
case $1 in
  -G | --set-ring)
    state=down
    [ "$("$real" -g "$2")" = "$(cat {_NIC_KEPT}/"$2")" ] && state=up
    ip link set dev "$2" $state
    ;;
esac
exit $code
"""


def _nic_setting_kills_link(lab: LabDir, one: NodeState, _args: Args) -> None:
    _script(
        lab,
        one,
        f"mkdir -p {_NIC_KEPT}/bin\n"
        "for each in /sys/class/net/*; do\n"
        f'  ethtool -g "${{each##*/}}" > {_NIC_KEPT}/"${{each##*/}}" 2>/dev/null || :\n'
        "done\n"
        f"if [ -e {_NIC_HOOK} ]; then mv {_NIC_HOOK} {_NIC_KEPT}/bin/ethtool; fi\n"
        f"cat > {_NIC_HOOK} <<'END'\n{_NIC_SCRIPT}END\n"
        f"chmod 755 {_NIC_HOOK}\n",
    )


def _nic_setting_harmless(lab: LabDir, one: NodeState, _args: Args) -> None:
    _script(
        lab,
        one,
        f"rm -f {_NIC_HOOK}\n"
        f"if [ -e {_NIC_KEPT}/bin/ethtool ]; then mv {_NIC_KEPT}/bin/ethtool {_NIC_HOOK}; fi\n"
        f"for each in {_NIC_KEPT}/*; do\n"
        '  if [ -f "$each" ] && [ -s "$each" ]; then ip link set dev "${each##*/}" up; fi\n'
        "done\n"
        f"rm -rf {_NIC_KEPT}\n",
    )


CATALOGUE: Mapping[str, HostFault] = {
    fault.name: fault
    for fault in (
        HostFault("no_python", "no Python is installed", _no_python, _python_back),
        HostFault(
            "disk_full",
            "no write to the node's disk succeeds: no space left",
            _disk_full,
            _disk_freed,
        ),
        HostFault(
            "apt_lock_held",
            "something holds the locks of apt and dpkg for so many seconds",
            _apt_lock_held,
            _apt_lock_released,
            {"seconds": "60"},
        ),
        HostFault("no_dns", "the name server does not answer", _no_dns, _dns_back),
        HostFault(
            "ssh_hangs", "port 22 accepts connections and never says a word", _nothing, _nothing
        ),
        HostFault("port_refused", "connections to port 22 are refused", _nothing, _nothing),
        HostFault(
            "host_key_changed",
            "the SSH host keys are others than before (clear keeps the new ones)",
            _host_key_changed,
            _nothing,
        ),
        HostFault(
            "noisy_output",
            "every SSH command prints so many megabytes of escape codes first",
            _noisy_output,
            _quiet,
            {"megabytes": "2"},
        ),
        HostFault(
            "nic_setting_kills_link",
            "a NIC whose rings (ethtool -G) are set to another size loses its link",
            _nic_setting_kills_link,
            _nic_setting_harmless,
        ),
        HostFault(
            "slow_link",
            "the node's link carries so many Mb/s, both ways",
            netfaults.slow_link,
            netfaults.unshape,
            {"mbps": "50"},
        ),
        HostFault(
            "bad_pair",
            "between the node and the one named by peer so many Mb/s pass, both ways",
            netfaults.bad_pair,
            netfaults.unshape,
            {"peer": "", "mbps": "50"},
        ),
        HostFault(
            "mtu_blackhole",
            "the node's switch port drops frames with more than so many bytes, without a word",
            netfaults.mtu_blackhole,
            netfaults.mtu_back,
            {"bytes": "1400"},
        ),
        HostFault(
            "udp_loss",
            "so many percent of the UDP datagrams to the node are lost; those from it arrive",
            netfaults.udp_loss,
            netfaults.udp_back,
            {"percent": "10"},
        ),
    )
}
# They live on the lab's side of a node's cable: a node that is reset does not take them along.
OF_THE_CABLE = ("slow_link", "bad_pair", "mtu_blackhole", "udp_loss")


def mend_cable(lab: LabDir, one: NodeState) -> None:
    """Take back the faults of the node's cable, as somebody does who replaces the node."""
    for name, args in one.faults.items():
        if name in OF_THE_CABLE:
            CATALOGUE[name].clear(lab, one, args)


def arguments(fault: HostFault, given: Args) -> dict[str, str]:
    """The fault's arguments, filled in; BadInput for one that it does not take."""
    unknown = sorted(set(given) - set(fault.defaults))
    if unknown:
        takes = ", ".join(fault.defaults) or "none"
        raise BadInput(f"{fault.name} takes no argument {unknown[0]!r}; it takes {takes}")
    merged = {**fault.defaults, **given}
    for key, value in merged.items():
        if key == "peer":  # the name of a node: the fault looks it up
            continue
        try:
            float(value)
        except ValueError:
            raise BadInput(f"{fault.name}: {key}={value!r} is not a number") from None
    return merged
