"""One stand-in package, as data, and how it becomes a .deb."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from . import dkms, native

if TYPE_CHECKING:
    from pathlib import Path

EPOCH = 1718000000  # 2024-06-10: every file's time, unless SOURCE_DATE_EPOCH says another
_RUN = "/usr/lib/nodeprep-sim/run"
_LIST = "/etc/nodeprep-simulated"


@dataclass(frozen=True)
class Deb:
    """A package. `tools` become links to the simulator, `part` is what it records as installed."""

    name: str
    version: str
    summary: str
    depends: str = ""
    exclusive: str = ""  # a virtual package that only one of its providers may be installed for
    section: str = "non-free/libs"
    architecture: str = "amd64"
    tools: tuple[str, ...] = ()  # absolute paths
    files: dict[str, str] = field(default_factory=dict)  # absolute path -> text
    binaries: dict[str, bytes] = field(default_factory=dict)
    libraries: tuple[str, ...] = ()  # absolute paths of what `native` compiles
    links: dict[str, str] = field(default_factory=dict)  # absolute path -> target
    part: str = ""
    postinst_first: str = ""  # before the part is recorded; may refuse
    postinst: str = ""
    postrm: str = ""
    units: tuple[str, ...] = ()  # stopped before removal
    dkms: tuple[str, str] = ("", "")  # name and version of its source under /usr/src

    @property
    def upstream(self) -> str:
        """The version without epoch and Debian revision."""
        return self.version.rpartition(":")[2].partition("-")[0]

    @property
    def filename(self) -> str:
        version = self.version.rpartition(":")[2]
        return f"{self.name}_{version}_{self.architecture}.deb"


def build(deb: Deb, scratch: Path, out_dir: Path) -> Path:
    """Writes the .deb with dpkg-deb; the same input gives the same bytes."""
    root = scratch / "root"
    shutil.rmtree(root, ignore_errors=True)
    for path, text in deb.files.items():
        _write(root, path, text.encode())
    for path, data in deb.binaries.items():
        _write(root, path, data)
    for path in deb.libraries:
        _write(root, path, native.library(path.rpartition("/")[2]))
    for path, points_to in [*deb.links.items(), *((tool, _RUN) for tool in deb.tools)]:
        place = root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(points_to)
    _control(deb, root / "DEBIAN")
    epoch = os.environ.get("SOURCE_DATE_EPOCH", str(EPOCH))
    _set_modes(root)
    target = out_dir / deb.filename
    subprocess.run(
        ["dpkg-deb", "--root-owner-group", "-Zgzip", "--build", str(root), str(target)],
        check=True,
        stdout=subprocess.DEVNULL,
        env={**os.environ, "SOURCE_DATE_EPOCH": epoch},
    )
    return target


def _write(root: Path, path: str, data: bytes) -> None:
    place = root / path.lstrip("/")
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(data)


def _set_modes(root: Path) -> None:
    root.chmod(0o755)
    for path in root.rglob("*"):
        if not path.is_symlink():
            script = path.parent.name == "DEBIAN" and path.name in ("postinst", "prerm", "postrm")
            path.chmod(0o755 if path.is_dir() or script else 0o644)


def _control(deb: Deb, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    fields = {
        "Package": deb.name,
        "Version": deb.version,
        "Architecture": deb.architecture,
        "Section": deb.section,
        "Priority": "optional",
        "Maintainer": "nodeprep lab <lab@nodeprep.invalid>",
        "Depends": deb.depends,
        "Provides": f"{deb.exclusive} (= {deb.version})" if deb.exclusive else "",
        "Conflicts": deb.exclusive,
        "Replaces": deb.exclusive,
        "Description": f"{deb.summary} (simulated)\n A stand-in for the lab, it drives nothing.",
    }
    lines = [f"{name}: {value}\n" for name, value in fields.items() if value]
    (folder / "control").write_text("".join(lines))
    if etc := [path for path in sorted(deb.files) if path.startswith("/etc/")]:
        (folder / "conffiles").write_text("".join(path + "\n" for path in etc))
    for name, body in _scripts(deb).items():
        if body:
            (folder / name).write_text("#!/bin/sh\nset -e\n" + body)


def _scripts(deb: Deb) -> dict[str, str]:
    reload = "[ ! -d /run/systemd/system ] || systemctl daemon-reload\n" if deb.units else ""
    stop = "".join(
        f"[ ! -d /run/systemd/system ] || systemctl stop {unit} || true\n" for unit in deb.units
    )
    installed, removed, forget = "", "", ""
    if deb.dkms[0]:
        installed = dkms.installed(*deb.dkms)
        forget = f"case $1 in remove|upgrade|deconfigure)\n{dkms.removed(*deb.dkms)};;\nesac\n"
    if deb.part:
        # libnccl2 is told with its CUDA build, all else without a revision.
        version = deb.version if deb.part == "nccl" else deb.upstream
        installed += f"[ ! -x {_RUN} ] || {_RUN} installed {deb.part} '{version}'\n"
        removed = f"[ ! -x {_RUN} ] || {_RUN} installed {deb.part} -\n"
    return {
        "postinst": _when(
            "configure", deb.postinst_first + installed + _own_up(deb) + reload + deb.postinst
        ),
        "prerm": forget + _when("remove", stop),
        "postrm": _when("remove", removed + reload + deb.postrm),
    }


def _own_up(deb: Deb) -> str:
    """Adds the package's tools to the node's list of stand-ins, so that reports can say so."""
    return "".join(
        f"[ ! -e {_LIST} ] || grep -qx {name} {_LIST} || echo {name} >> {_LIST}\n"
        for name in (tool.rpartition("/")[2] for tool in deb.tools)
    )


def _when(action: str, body: str) -> str:
    return f'[ "$1" = {action} ] || exit 0\n{body}' if body else ""
