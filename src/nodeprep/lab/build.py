"""The two layers of a node image, built into an empty folder. `image` caches what comes out."""

from __future__ import annotations

import shutil
from pathlib import Path

from nodeprep.lab import recipe, repository, sources
from nodeprep.lab.shell import run
from nodeprep.lab.sim import packages

SIM = Path(__file__).parent / "sim"
_SIM_TARGET = "usr/lib/nodeprep-sim"
_TIMEOUT_S = 1800
_HOOKS = Path("/usr/share/mmdebstrap/hooks")


def base(folder: Path) -> None:
    """A Debian root (`root/`), a signing key, and the packages that roles install (`debian/`)."""
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
            *_merged_usr(),
            *excludes,
            f"--include={','.join(recipe.IMAGE_PACKAGES)}",
            f"--customize-hook={_download_hook(debian)}",
            recipe.SUITE,
            root,
            "-",
        ],
        text=sources.for_image(sources.of_machine()),
        timeout_s=_TIMEOUT_S,
    )
    shutil.rmtree(debian / "partial")
    (debian / "lock").unlink(missing_ok=True)
    repository.index(debian, folder / repository.SECRET_KEY)
    _finish_root(root, folder / repository.PUBLIC_KEY)


def _merged_usr() -> list[str]:
    """Before 1.2, mmdebstrap must be told that Debian 12 has /bin in /usr (Ubuntu 22.04: 0.8.4)."""
    hook = _HOOKS / "merged-usr"
    by_itself = (_HOOKS / "maybe-merged-usr").is_dir()
    return [f"--hook-dir={hook}"] if hook.is_dir() and not by_itself else []


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
    for name in ("etc/apt/apt.conf.d/99mmdebstrap", "etc/apt/sources.list"):
        (root / name).unlink(missing_ok=True)
    for pattern in ("etc/apt/sources.list.d/*", "var/lib/apt/lists/*_*", "etc/ssh/ssh_host_*"):
        for path in root.glob(pattern):
            path.unlink()
    for name in ("apt/history.log", "apt/term.log", "apt/eipp.log.xz", "bootstrap.log"):
        (root / "var/log" / name).unlink(missing_ok=True)
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


def sim(folder: Path, base: Path) -> None:
    """The hardware stand-ins (`root/`) and NVIDIA's packages as the lab serves them (`nvidia/`)."""
    root, nvidia = folder / "root", folder / "nvidia"
    nvidia.mkdir()
    target = root / _SIM_TARGET
    target.parent.mkdir(parents=True)
    bin_dir = root / "usr/local/sbin"
    bin_dir.mkdir(parents=True)
    shutil.copytree(SIM, target, ignore=shutil.ignore_patterns("__pycache__"))
    (target / "run").chmod(0o755)  # an installer may have lost it
    for tool in recipe.SIMULATED_TOOLS:
        (bin_dir / tool).symlink_to(f"/{_SIM_TARGET}/run")
    etc = root / "etc"
    etc.mkdir()
    (etc / "nodeprep-simulated").write_text("\n".join(recipe.SIMULATED_TOOLS) + "\n")
    packages.build(nvidia, public_key=base / repository.PUBLIC_KEY)
    repository.index(nvidia, base / repository.SECRET_KEY)
