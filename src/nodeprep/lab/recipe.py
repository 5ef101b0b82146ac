"""What a lab node is made of: the Debian packages of its image, of its repository, and its shape.

Constants only. The image cache is keyed by the bytes of this file (and of what builds from it),
so a change here is a new image.
"""

from __future__ import annotations

SUITE = "bookworm"
ARCHIVE = "http://deb.debian.org/debian"
SECURITY = "http://deb.debian.org/debian-security"
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"

GATEWAY = "10.77.0.1"
NIC = "ens5f0"  # the reference site's name for its 10 Gb/s port

# A freshly rented server: what an installer leaves, and nothing of a cluster.
IMAGE_PACKAGES = (
    "ca-certificates",
    "dbus",
    "iproute2",
    "iputils-ping",
    "kmod",
    "less",
    "libnss-myhostname",
    "libpam-systemd",
    "openssh-server",
    "procps",
    "python3",
    "python3-apt",
    "sudo",
    "systemd",
    "systemd-sysv",
    "udev",
)

# What a virtual machine has beyond that: a kernel of its own, and what boots it.
VM_PACKAGES = (
    "grub-pc-bin",
    "grub2-common",
    "initramfs-tools",
    "linux-image-cloud-amd64",
    "nfs-kernel-server",
    "qemu-guest-agent",
    "zstd",
)

# What roles install. Their dependencies come along; recommended packages do not.
REPOSITORY_PACKAGES = (
    *VM_PACKAGES,
    "apt-cacher-ng",
    "bc",
    "build-essential",
    "cachefilesd",
    "chrony",
    "clang-19",  # no role: tests build with it what needs nvcc
    "containerd",
    "curl",
    "dkms",
    "dmidecode",
    "ethtool",
    "fio",
    "gnupg",
    "htop",
    "hwloc-nox",
    "ibverbs-providers",
    "ibverbs-utils",
    "infiniband-diags",
    "iperf3",
    "ipmitool",
    "irqbalance",
    "jq",
    "libopenmpi-dev",
    "linux-headers-cloud-amd64",
    "lvm2",
    "mdadm",
    "nfs-common",
    "numactl",
    "nvme-cli",
    "openmpi-bin",
    "pciutils",
    "perftest",
    "rdma-core",
    "rdmacm-utils",
    "rsync",
    "smartmontools",
    "thin-provisioning-tools",
    "tzdata",
    "ucx-utils",
    "unattended-upgrades",
    "xfsprogs",
)

# In the image already, and in the repository too: a node that lost them can get them back.
REINSTALLABLE_PACKAGES = (
    "ca-certificates",
    "kmod",
    "libpython3-stdlib",
    "libpython3.11-minimal",
    "libpython3.11-stdlib",
    "openssh-server",
    "procps",
    "python3",
    "python3-apt",
    "python3-minimal",
    "python3.11",
    "python3.11-minimal",
    "sudo",
)

# Kept out of nodes, so that an image stays small; no role reads documentation.
PATH_EXCLUDES = ("/usr/share/doc/*", "/usr/share/info/*", "/usr/share/locale/*", "/usr/share/man/*")

# Would fail, or work at a moment of their own choosing, in a node without devices.
MASKED_UNITS = (
    "console-getty.service",
    "e2scrub_all.timer",
    "e2scrub_reap.service",
    "fstrim.timer",
    "getty@tty1.service",
    "nvmf-autoconnect.service",
    "run-rpc_pipefs.mount",
)
DISABLED_UNITS = (
    "apt-daily-upgrade.timer",
    "apt-daily.timer",
    "systemd-networkd-wait-online.service",
)
ENABLED_UNITS = ("lab-nfs.socket", "ssh.service", "systemd-networkd.service")

# Path in the image -> text.
FILES = {
    # As providers ship it: sshd takes the first value it meets, so this name sorts in the middle.
    "etc/ssh/sshd_config.d/50-provider.conf": (
        "PermitRootLogin yes\nPasswordAuthentication yes\nUseDNS no\n"
    ),
    "etc/systemd/network/10-provider.network": (
        f"[Match]\nName={NIC}\n\n[Network]\nGateway={GATEWAY}\nDNS={GATEWAY}\n"
        "LinkLocalAddressing=no\nIPv6AcceptRA=no\n"
    ),
    "etc/resolv.conf": f"nameserver {GATEWAY}\nsearch lab\n",
    "etc/systemd/journald.conf.d/50-provider.conf": "[Journal]\nSystemMaxUse=32M\n",
    # A node shares the host's clock and may not set it: chronyd runs without touching it (-x).
    "usr/lib/systemd/system/chrony.service.d/50-lab.conf": (
        "[Unit]\nConditionCapability=\n\n"
        "[Service]\nExecStart=\nExecStart=!/usr/sbin/chronyd -x $DAEMON_OPTS\n"
    ),
    # A lab's kernel has no NFS: the NAS answers on NFS's port, and that is all that it does.
    "etc/systemd/system/lab-nfs.socket": (
        "[Unit]\nDescription=Stands in for an NFS server\nConditionHost=nas*\n\n"
        "[Socket]\nListenStream=2049\nAccept=yes\n\n[Install]\nWantedBy=sockets.target\n"
    ),
    "etc/systemd/system/lab-nfs@.service": (
        "[Service]\nExecStart=cat\nStandardInput=socket\nStandardOutput=null\n"
    ),
    # A node that loses power is reset: dpkg need not wait for the disk after every file.
    "etc/dpkg/dpkg.cfg.d/50-lab": "force-unsafe-io\n",
    # Empty but there: a first boot gets its own, and no first-boot presets run over ours.
    "etc/machine-id": "",
    "etc/hostname": "localhost\n",
    "etc/hosts": "127.0.0.1 localhost\n",
}

# Commands that a stand-in answers, because the host's own hardware would show through.
# dmesg and journalctl: the kernel's log is the host's too, and has no GPU in it.
SIMULATED_TOOLS = ("dmesg", "dmidecode", "ethtool", "journalctl", "lsblk", "lscpu", "lspci")
