"""The driver's packages: names, versions and dependencies as Ubuntu's archive has them.

The `-server` packages exist in Ubuntu's archive only, with its revision (0ubuntu0.22.04.1).
NVIDIA's own repository has the same driver without `-server`, with the revision 0ubuntu1, and the
fabric manager, with the revision 1. Left out: what a node without a display does not need, and the
dependency on `dkms`, so that a node without a kernel of its own needs no compiler: where DKMS is, a
small module of the driver's name and version is built.
"""

from __future__ import annotations

from . import dkms
from .deb import Deb

_PERSISTENCED = """\
[Unit]
Description=NVIDIA Persistence Daemon
Wants=syslog.target

[Service]
Type=forking
ExecStart=/usr/bin/nvidia-persistenced --user nvidia-persistenced --no-persistence-mode --verbose
ExecStopPost=/bin/rm -rf /var/run/nvidia-persistenced
"""
_FABRIC = """\
[Unit]
Description=NVIDIA fabric manager service
After=network-online.target
Requires=network-online.target

[Service]
User=root
PrivateTmp=false
Type=forking
TimeoutStartSec=720
ExecStart=/usr/bin/nv-fabricmanager -c /usr/share/nvidia/nvswitch/fabricmanager.cfg
LimitCORE=infinity

[Install]
WantedBy=multi-user.target
"""
_FABRIC_CFG = """\
LOG_LEVEL=4
LOG_FILE_NAME=/var/log/fabricmanager.log
LOG_APPEND_TO_LOG=1
DAEMONIZE=1
BIND_INTERFACE_IP=127.0.0.1
STARTING_TCP_PORT=16000
FABRIC_MODE=0
STATE_FILE_NAME=/tmp/fabricmanager.state
"""
_NOUVEAU = (
    "# This file was installed with the driver.\nblacklist nouveau\noptions nouveau modeset=0\n"
)
_ADD_USER = """\
getent passwd nvidia-persistenced >/dev/null || ! command -v useradd >/dev/null || \
useradd --system --no-create-home --home-dir / --shell /usr/sbin/nologin nvidia-persistenced
"""
# On hardware, udev starts the daemon when the driver binds. Here the package does it that comes
# last, the daemon's or the module's.
_START = """\
if [ -d /run/systemd/system ] && grep -q loaded /var/lib/nodeprep-sim/installed.json 2>/dev/null &&
    systemctl cat nvidia-persistenced.service >/dev/null 2>&1
then
    systemctl restart nvidia-persistenced.service || true
fi
"""


def branch(suffix: str, version: str, upstream: str) -> list[Deb]:
    """One driver branch, headless: `suffix` as in `nvidia-utils-535-server`."""

    def also(name: str) -> str:
        return f"{name}-{suffix} (= {version})"

    firmware = f"nvidia-firmware-{suffix}-{upstream}"
    name = "nvidia-srv" if "server" in suffix else "nvidia"
    return [
        Deb(f"nvidia-headless-{suffix}", version, "NVIDIA headless metapackage",
            depends=f"{also('nvidia-headless-no-dkms')}, {also('nvidia-dkms')}"),
        Deb(f"nvidia-headless-no-dkms-{suffix}", version, "NVIDIA headless metapackage - no DKMS",
            depends=", ".join(also(name) for name in (
                "libnvidia-cfg1", "libnvidia-compute", "nvidia-compute-utils",
                "nvidia-kernel-common", "nvidia-kernel-source"))),
        Deb(f"nvidia-utils-{suffix}", version, "NVIDIA Server Driver support binaries",
            depends=also("libnvidia-compute"), tools=("/usr/bin/nvidia-smi",),
            exclusive="nvidia-utils"),
        Deb(f"libnvidia-compute-{suffix}", version, "NVIDIA libcompute package",
            depends="libc6 (>= 2.27)", part="library", exclusive="libnvidia-compute",
            files={f"/usr/share/nvidia/nvidia-application-profiles-{upstream}-rc": "{}\n"}),
        Deb(f"libnvidia-cfg1-{suffix}", version, "NVIDIA binary OpenGL/GLX configuration library",
            depends="libc6 (>= 2.27)", exclusive="libnvidia-cfg1-any"),
        Deb(f"nvidia-compute-utils-{suffix}", version, "NVIDIA compute utilities",
            depends=f"{also('libnvidia-cfg1')}",
            tools=("/usr/bin/nvidia-persistenced",), exclusive="nvidia-compute-utils",
            files={"/lib/systemd/system/nvidia-persistenced.service": _PERSISTENCED},
            links={"/lib/systemd/system/multi-user.target.wants/nvidia-persistenced.service":
                   "../nvidia-persistenced.service"},
            postinst_first=_ADD_USER, postinst=_START, units=("nvidia-persistenced.service",)),
        Deb(f"nvidia-dkms-{suffix}", version, "NVIDIA DKMS package",
            depends=f"{also('nvidia-kernel-source')}, nvidia-kernel-common-{suffix}",
            part="kernel", postinst=_START, dkms=(name, upstream), exclusive="nvidia-dkms-kernel"),
        Deb(f"nvidia-kernel-source-{suffix}", version, "NVIDIA kernel source package",
            files={**dkms.source(name, "nvidia", upstream),
                   f"/usr/src/{name}-{upstream}/nvidia/nv-p2p.h": "/* simulated */\n"},
            exclusive="nvidia-kernel-source"),
        Deb(f"nvidia-kernel-common-{suffix}", version, "Shared files used with the kernel module",
            depends=f"{firmware} (= {version})", exclusive="nvidia-kernel-common",
            files={"/lib/modprobe.d/nvidia-graphics-drivers.conf": _NOUVEAU}),
        Deb(firmware, version, "Firmware files used by the kernel module",
            files={f"/lib/firmware/nvidia/{upstream}/gsp_tu10x.bin": "simulated\n"}),
    ]  # fmt: skip


def fabric_manager(name: str, version: str) -> Deb:
    return Deb(
        name, version, "Fabric Manager for NVSwitch based systems.",
        depends="libc6 (>= 2.27)", section="multiverse/libs", part="fabricmanager",
        exclusive="nvidia-fabricmanager",
        tools=("/usr/bin/nv-fabricmanager",), units=("nvidia-fabricmanager.service",),
        files={"/lib/systemd/system/nvidia-fabricmanager.service": _FABRIC,
               "/usr/share/nvidia/nvswitch/fabricmanager.cfg": _FABRIC_CFG},
    )  # fmt: skip


def all_debs() -> list[Deb]:
    """The branch that is wanted with an older and a newer build, a newer branch, and `cuda`'s 530.

    The newer build is what unattended-upgrades would put under a running module.
    """
    return [
        *branch("535-server", "535.183.01-0ubuntu0.22.04.1", "535.183.01"),
        *branch("535-server", "535.161.08-0ubuntu2.22.04.1", "535.161.08"),
        *branch("535-server", "535.216.01-0ubuntu0.22.04.1", "535.216.01"),
        *branch("550-server", "550.90.07-0ubuntu0.22.04.1", "550.90.07"),
        *branch("530", "530.30.02-0ubuntu1", "530.30.02"),
        Deb("nvidia-driver-530", "530.30.02-0ubuntu1", "NVIDIA driver metapackage",
            depends="nvidia-headless-530 (= 530.30.02-0ubuntu1), "
                    "nvidia-utils-530 (= 530.30.02-0ubuntu1)"),
        fabric_manager("nvidia-fabricmanager-535", "535.183.01-1"),
        fabric_manager("nvidia-fabricmanager-535", "535.161.08-1"),
        fabric_manager("nvidia-fabricmanager-535", "535.216.01-1"),
        fabric_manager("nvidia-fabricmanager-550", "550.90.07-1"),
    ]  # fmt: skip
