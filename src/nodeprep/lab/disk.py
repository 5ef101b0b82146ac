"""The disk of a virtual machine, and a machine that has booted from it once, kept warm.

    vm-<hash>/    root/    what a VM has beyond a container: kernel, boot loader, …
    warm-<hash>/  disk.raw root.qcow2    image, stand-ins and that as one disk, and its first boot
                  ram0 ram1 state        the machine, saved while it waits for its NIC and disks

All are cached beside the image, by the hash of what they are made of. A saved machine knows the
clock of the machine that it ran on, so its hash takes in that machine's boot.
"""

from __future__ import annotations

import shutil
import struct
from collections.abc import Callable, Iterable
from pathlib import Path

from nodeprep.errors import ToolFailure
from nodeprep.lab import image, processes, qemu, recipe, shell
from nodeprep.lab.image import Image
from nodeprep.lab.locks import locked

_HERE = Path(__file__)
_SIZE_MIB = 8192
_FIRST_SECTOR = 2048
_BOOT_TIMEOUT_S = 420
_APT_TIMEOUT_S = 900
_GRUB = "usr/lib/grub/i386-pc"
# Big, and no affair of a kernel's: roles install them in containers, where unpacking takes seconds.
_PROVIDED_PACKAGES = (
    "build-essential",
    "containerd",
    "fio",
    "iperf3",
    "libopenmpi-dev",
    "linux-headers-cloud-amd64",
    "openmpi-bin",
    "ucx-utils",
)
# What a container only pretends to be.
_UNMASKED_UNITS = ("run-rpc_pipefs.mount",)
_DISABLED_UNITS = ("lab-nfs.socket", "nfs-server.service")
_ABSENT_FILES = ("usr/lib/systemd/system/chrony.service.d/50-lab.conf",)
_SIMULATED_TOOLS = ("lspci",)  # has the GPUs; what else it would hide is there
_FILES = {
    # An initramfs of these machines' own drivers, hardly compressed: emulated, the usual one takes
    # four minutes.
    "etc/initramfs-tools/conf.d/lab": "MODULES=dep\nCOMPRESS=gzip\nCOMPRESSLEVEL=1\n",
    "etc/fstab": "LABEL=root / ext4 defaults 0 1\n",
    "etc/systemd/network/80-provider.link": (
        f"[Match]\nDriver=virtio_net\n\n[Link]\nName={recipe.NIC}\n"
    ),
    "etc/default/grub": (
        "GRUB_DEFAULT=0\nGRUB_TIMEOUT=0\nGRUB_DISTRIBUTOR=Debian\n"
        'GRUB_CMDLINE_LINUX_DEFAULT=""\nGRUB_CMDLINE_LINUX="console=ttyS0 panic=-1"\n'
        "GRUB_TERMINAL=serial\nGRUB_DISABLE_OS_PROBER=true\nGRUB_DISABLE_SUBMENU=true\n"
    ),
}
# $1 folder, $2 packages, $3 lower layers; the rest are the packages to install.
_INSTALL = """\
folder=$1 debian=$2 lower=$3; shift 3
mkdir -p "$folder/merged" "$folder/root" "$folder/work"
root=$folder/merged
mount -t overlay overlay -o "lowerdir=$lower,upperdir=$folder/root,workdir=$folder/work" "$root"
mount --bind "$debian" "$root/mnt"
mount -t proc proc "$root/proc"
mount -t sysfs -o ro sysfs "$root/sys"
mount --bind /dev "$root/dev"
echo 'deb [trusted=yes] file:/mnt ./' > "$root/tmp/lab.list"
only="-o Dir::Etc::SourceList=/tmp/lab.list -o Dir::Etc::SourceParts=- -o APT::Sandbox::User=root"
quiet="-qq -o Dpkg::Use-Pty=0 -o APT::Install-Recommends=false"
export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8
chroot "$root" apt-get $only $quiet update
chroot "$root" apt-get $only $quiet install -y "$@" </dev/null
chroot "$root" apt-get clean
rm -rf "$root/tmp/lab.list" "$root"/var/lib/apt/lists/*_*
"""
# $1 folder, $2 layers, $3 path of the disk, $4 sectors before the filesystem, $5 its size in KiB
_FORMAT = """\
mkdir -p "$1/merged"
mount -t overlay overlay -o "lowerdir=$2" "$1/merged"
mkfs.ext4 -q -F -L root -E "offset=$(($4 * 512))" -d "$1/merged" "$3" "${5}k"
"""
_IMAGE_OF_GRUB = """\
chroot "$1" grub-mkimage -O i386-pc -o /boot/grub/core.img -p '(hd0,msdos1)/boot/grub' \\
  biosdisk part_msdos ext2
"""


def ensure(base: Image, *, note: Callable[[str], None], in_use: Iterable[Path] = ()) -> Path:
    """The folder of the warm machine for an image: from the cache, or booted and saved."""
    cache = image.cache_dir()
    system = cache / f"vm-{image.digest((_HERE,), salt=base.base.name)}"
    salt = f"{system.name} {base.sim.name} {_this_boot()}"
    warm = cache / f"warm-{image.digest((_HERE.with_name('qemu.py'),), salt=salt)}"
    with locked(cache / ".vm.lock"):
        if not system.is_dir():
            note("adding a kernel and a boot loader to the image (once; a minute or two)")
            image.build_in(system, lambda folder: _system(folder, base))
        if not warm.is_dir():
            note("booting a virtual machine, to start the others from (a minute or more)")
            image.build_in(warm, lambda folder: _warm(folder, base, system))
        image.prune_kinds(("vm-*", "warm-*"), {system, warm, *in_use})
    return warm


def _this_boot() -> str:
    """QEMU's version and this machine's boot: a saved state is good for these alone."""
    version = shell.run([qemu.BINARY, "--version"]).splitlines()[0]
    return f"{version} {Path('/proc/sys/kernel/random/boot_id').read_text()}"


def _system(folder: Path, base: Image) -> None:
    """Install what a VM has beyond a container; what changed is the layer `root`."""
    lower = str(base.base / "root")
    _alone(_INSTALL, folder, base.debian, lower, *recipe.VM_PACKAGES, *_PROVIDED_PACKAGES)
    root = folder / "root"
    _settle(root, lower)
    shutil.rmtree(folder / "work")
    (folder / "merged").rmdir()


def _alone(script: str, *arguments: str | Path) -> None:
    """Run a shell script with mounts of its own, so that none stays whatever happens."""
    words = ["unshare", "--mount", "--propagation=private", "sh", "-e", "-c", script, "sh"]
    shell.run([*words, *arguments], timeout_s=_APT_TIMEOUT_S)


def _settle(root: Path, lower: str) -> None:
    """Files and units that differ, and a boot loader for the first boot."""
    merged = f'mount -t overlay overlay -o "lowerdir=$1,upperdir={root},workdir=$2" "$3"'
    remove = "".join(f'rm -f "$3/{name}"\n' for name in _ABSENT_FILES)
    units = "".join(
        f'systemctl --quiet --root="$3" {verb} {" ".join(chosen)}\n'
        for verb, chosen in (
            ("unmask", _UNMASKED_UNITS),
            ("disable", _DISABLED_UNITS),
        )
    )
    grub = f'mkdir -p "$3/boot/grub"\ncp -r "$3/{_GRUB}" "$3/boot/grub/"\n'
    grub += _IMAGE_OF_GRUB.replace('"$1"', '"$3"')
    script = f"{merged}\n{remove}{units}{grub}"
    _alone(script, lower, root.parent / "work", root.parent / "merged")
    for name, text in _FILES.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (root / "boot/grub/grub.cfg").write_text(_first_menu(root))
    (root / "etc/nodeprep-simulated").write_text("\n".join(_SIMULATED_TOOLS) + "\n")


def _first_menu(root: Path) -> str:
    """Good for one boot: then `update-grub` writes the menu that every later boot takes.

    That boot has no NIC, and must not wait for one.
    """
    kernel = next((root / "boot").glob("vmlinuz-*"), None)
    if kernel is None:
        raise ToolFailure("the image got no kernel")
    version = kernel.name.removeprefix("vmlinuz-")
    return (
        "set timeout=0\nmenuentry first {\n"
        f"  linux /boot/{kernel.name} root=LABEL=root ro console=ttyS0 panic=-1"
        " systemd.mask=systemd-networkd-wait-online.service\n"
        f"  initrd /boot/initrd.img-{version}\n}}\n"
    )


def _disk(folder: Path, base: Image, system: Path) -> None:
    """One partition with the root filesystem, GRUB in the sectors before it."""
    disk, tools = folder / "disk.raw", folder / "tools"
    with disk.open("wb") as stream:
        stream.truncate(_SIZE_MIB << 20)
    local = tools / "usr/local/sbin"
    local.mkdir(parents=True)
    for name in set(recipe.SIMULATED_TOOLS) - set(_SIMULATED_TOOLS):
        shell.run(["mknod", local / name, "c", "0", "0"])  # overlayfs: nothing is here
    layers = ":".join(str(path) for path in (tools, system / "root", base.sim / "root",
                                             base.base / "root"))  # fmt: skip
    size_kib = (_SIZE_MIB << 10) - _FIRST_SECTOR // 2
    _alone(_FORMAT, folder, layers, disk, str(_FIRST_SECTOR), str(size_kib))
    _install_grub(disk, system / "root/boot/grub")
    shutil.rmtree(tools)
    (folder / "merged").rmdir()


def _install_grub(disk: Path, grub: Path) -> None:
    """The MBR: boot.img as its code, one partition. Behind it core.img, where boot.img looks."""
    boot, core = (grub / "i386-pc/boot.img").read_bytes(), (grub / "core.img").read_bytes()
    if len(core) > (_FIRST_SECTOR - 1) * 512:
        raise ToolFailure("GRUB does not fit before the first partition")
    with disk.open("r+b") as stream:
        sectors = (_SIZE_MIB << 11) - _FIRST_SECTOR
        stream.write(boot[:440])
        stream.seek(446)
        stream.write(struct.pack("<B3xB3xII", 0x80, 0x83, _FIRST_SECTOR, sectors))
        stream.seek(510)
        stream.write(b"\x55\xaa")
        stream.write(core)


def _warm(folder: Path, base: Image, system: Path) -> None:
    """Boot once, write the real boot menu, and save the machine."""
    _disk(folder, base, system)
    shell.run(["qemu-img", "create", "-q", "-f", "qcow2", "-b", "disk.raw", "-F", "raw",
               folder / "root.qcow2"])  # fmt: skip
    started = processes.spawn(
        ["env", "-C", str(folder), *qemu.arguments(name="warm", memory=folder, shared=True)],
        record=folder / "pid.json",
        log=folder / "qemu.log",
        cgroups=(),
    )
    try:
        qemu.wait_for_agent(folder, _BOOT_TIMEOUT_S)
        _prepare(folder)
        qemu.save_state(folder, folder / "state")
    finally:
        processes.kill([started])
    for name in ("pid.json", "qemu.log", "console.log", "qmp.sock", "agent.sock"):
        (folder / name).unlink(missing_ok=True)


def _prepare(folder: Path) -> None:
    script = (
        "export PATH=/usr/sbin:/usr/bin:/sbin:/bin\n"
        "update-grub\n"
        "for _ in $(seq 120); do\n"
        "  case $(systemctl is-system-running) in running|degraded) break;; esac\n"
        "  sleep 0.5\n"
        "done\n"
        "rm /boot/grub/core.img\n"
        "sync\n"
    )
    code, out, err = qemu.execute(folder, ["/bin/sh", "-e", "-s"], [], script, 240)
    if code != 0:
        raise ToolFailure(f"the first virtual machine is not ready: {(err or out)[-500:]}")
