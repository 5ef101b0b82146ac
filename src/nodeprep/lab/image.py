"""The node image: built once with mmdebstrap, cached by the hash of all that it is made of.

Two layers, stacked by overlayfs. `base-<hash>` (a minute or two) holds the Debian root, the
repository of packages that roles install and its signing key; `sim-<hash>` (seconds) holds the
hardware stand-ins and NVIDIA's packages as the lab serves them.

    base-<hash>/  root/  debian/  repository.key  repository.gpg
    sim-<hash>/   root/  nvidia/
"""

from __future__ import annotations

import hashlib
import importlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from nodeprep import resources
from nodeprep.lab import recipe, repository, sources
from nodeprep.lab.locks import locked
from nodeprep.lab.shell import remove_tree, run

_HERE = Path(__file__).parent
_SIM = _HERE / "sim"
_SIM_TARGET = "usr/lib/nodeprep-sim"
_KEPT = 2
_BUILD_TIMEOUT_S = 1800


@dataclass(frozen=True)
class Image:
    """A finished image. `layers`: overlayfs lower directories, the uppermost first."""

    base: Path
    sim: Path

    @property
    def layers(self) -> tuple[Path, ...]:
        return (self.sim / "root", self.base / "root")

    @property
    def debian(self) -> Path:
        return self.base / "debian"

    @property
    def nvidia(self) -> Path:
        return self.sim / "nvidia"


def cache_dir() -> Path:
    return resources.cache_home() / "lab-images"


def digest(paths: Iterable[Path], *, salt: str = "") -> str:
    """Hash of the names and bytes of files (folders are walked), as 16 hex digits."""
    total = hashlib.sha256(salt.encode())
    for path in paths:
        files = sorted(path.rglob("*")) if path.is_dir() else [path]
        for file in files:
            if file.is_file() and "__pycache__" not in file.parts:
                total.update(f"{file.relative_to(path.parent)}\0".encode())
                total.update(file.read_bytes())
    return total.hexdigest()[:16]


def ensure(
    *, note: Callable[[str], None] = lambda _text: None, in_use: Iterable[Path] = ()
) -> Image:
    """The image for today's sources: from the cache, or built. `in_use` is never pruned."""
    cache = cache_dir()
    cache.mkdir(parents=True, exist_ok=True)
    with locked(cache / ".lock"):
        base_hash = digest([_HERE / "recipe.py", _HERE / "repository.py", _HERE / "image.py"])
        base = cache / f"base-{base_hash}"
        if not base.is_dir():
            note("building the node image (once; a minute or two)")
            _build(base, _build_base)
        sim = cache / f"sim-{digest([_SIM], salt=base_hash)}"
        if not sim.is_dir():
            note("building the hardware stand-ins and their packages")
            _build(sim, lambda folder: _build_sim(folder, base))
        for built in (base, sim):
            os.utime(built)
        _prune(cache, {base, sim, *in_use})
    return Image(base, sim)


def _build(target: Path, fill: Callable[[Path], None]) -> None:
    """All or nothing: fill a folder of another name, then rename it."""
    for stale in target.parent.glob(".building-*"):
        remove_tree(stale)  # of a build that was killed; we hold the lock
    folder = Path(tempfile.mkdtemp(prefix=".building-", dir=target.parent))
    try:
        folder.chmod(0o755)
        fill(folder)
        folder.rename(target)
    finally:
        remove_tree(folder)


def _prune(cache: Path, keep: set[Path]) -> None:
    for kind in ("base-*", "sim-*"):
        newest = sorted(cache.glob(kind), key=lambda path: path.stat().st_mtime, reverse=True)
        for old in newest[_KEPT:]:
            if old not in keep:
                remove_tree(old)


def _build_base(folder: Path) -> None:
    root, debian = folder / "root", folder / "debian"
    (debian / "partial").mkdir(parents=True)
    repository.make_key(folder)
    excludes = [f"--dpkgopt=path-exclude={glob}" for glob in recipe.PATH_EXCLUDES]
    run(
        [
            "mmdebstrap",
            "--mode=root",
            "--variant=apt",
            "--format=directory",
            "--quiet",
            f"--keyring={recipe.KEYRING}",
            '--aptopt=Acquire::Languages "none"',
            '--aptopt=APT::Install-Recommends "false"',
            *excludes,
            f"--include={','.join(recipe.IMAGE_PACKAGES)}",
            f"--customize-hook={_download_hook(debian)}",
            recipe.SUITE,
            root,
            "-",
        ],
        text=sources.for_image(sources.of_machine()),
        timeout_s=_BUILD_TIMEOUT_S,
    )
    shutil.rmtree(debian / "partial")
    (debian / "lock").unlink(missing_ok=True)
    repository.index(debian, folder / repository.SECRET_KEY)
    _finish_root(root, folder / repository.PUBLIC_KEY)


def _download_hook(debian: Path) -> str:
    """Shell that mmdebstrap runs while the image's apt still knows the mirror."""
    apt = (
        'APT_CONFIG="$MMDEBSTRAP_APT_CONFIG" apt-get --quiet --yes --download-only'
        f" -o Dir::Cache::archives={debian} -o APT::Sandbox::User=root"
    )
    wanted = " ".join(recipe.REPOSITORY_PACKAGES)
    again = " ".join(recipe.REINSTALLABLE_PACKAGES)
    return f"{apt} install {wanted} && {apt} --reinstall install {again} # $1"


def _finish_root(root: Path, public_key: Path) -> None:
    """From a Debian root to a server as a provider hands it over, with the lab's packages."""
    for path in ("etc/apt/apt.conf.d/99mmdebstrap", "etc/apt/sources.list"):
        (root / path).unlink(missing_ok=True)
    for pattern in ("etc/apt/sources.list.d/*", "var/lib/apt/lists/*_*", "etc/ssh/ssh_host_*"):
        for path in root.glob(pattern):
            path.unlink()
    for log in ("apt/history.log", "apt/term.log", "apt/eipp.log.xz", "bootstrap.log"):
        (root / "var/log" / log).unlink(missing_ok=True)
    keys = root / "etc/apt/keyrings"
    keys.mkdir(parents=True, exist_ok=True)
    shutil.copy(public_key, keys / "lab-debian.gpg")
    for name, text in recipe.FILES.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)  # resolv.conf may be a link to somewhere else
        path.write_text(text)
    (root / "etc/apt/sources.list.d/debian.list").write_text(
        f"deb [signed-by=/etc/apt/keyrings/lab-debian.gpg] http://{recipe.GATEWAY}/debian ./\n"
    )
    systemctl = ["systemctl", "--quiet", f"--root={root}"]
    run([*systemctl, "mask", *recipe.MASKED_UNITS])
    run([*systemctl, "disable", *recipe.DISABLED_UNITS])
    run([*systemctl, "enable", *recipe.ENABLED_UNITS])


def _build_sim(folder: Path, base: Path) -> None:
    root, nvidia = folder / "root", folder / "nvidia"
    nvidia.mkdir()
    target = root / _SIM_TARGET
    target.parent.mkdir(parents=True)
    bin_dir = root / "usr/local/sbin"
    bin_dir.mkdir(parents=True)
    if _SIM.is_dir():
        shutil.copytree(_SIM, target, ignore=shutil.ignore_patterns("__pycache__"))
        for tool in recipe.SIMULATED_TOOLS:
            (bin_dir / tool).symlink_to(f"/{_SIM_TARGET}/run")
        etc = root / "etc"
        etc.mkdir()
        (etc / "nodeprep-simulated").write_text("\n".join(recipe.SIMULATED_TOOLS) + "\n")
    if (_SIM / "packages.py").is_file():
        packages = importlib.import_module("nodeprep.lab.sim.packages")
        packages.build(nvidia, public_key=base / repository.PUBLIC_KEY)
    repository.index(nvidia, base / repository.SECRET_KEY)
