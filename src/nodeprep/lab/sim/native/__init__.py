"""Libraries that programs load instead of NVIDIA's: in C, compiled where packages are built."""

from __future__ import annotations

import functools
import subprocess
import tempfile
from pathlib import Path

_HERE = Path(__file__).parent
# Its name -> its source, and the library that it is linked with.
_LIBRARIES = {
    "libcudart.so.12": ("cudart.c", ""),
    "libcublas.so.12": ("cublas.c", "libcudart.so.12"),
}


def library(name: str) -> bytes:
    """The compiled one. CalledProcessError or FileNotFoundError when `cc` fails or is missing."""
    return _compiled()[name]


@functools.cache
def _compiled() -> dict[str, bytes]:
    with tempfile.TemporaryDirectory() as folder:
        build(Path(folder))
        return {name: (Path(folder) / name).read_bytes() for name in _LIBRARIES}


def build(folder: Path) -> None:
    """Writes all of them."""
    for name, (source, needed) in _LIBRARIES.items():
        link = [f"-L{folder}", f"-l:{needed}"] if needed else []
        subprocess.run(
            ["cc", "-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Wl,--build-id=none",
             f"-Wl,-soname,{name}", "-o", folder / name, _HERE / source, *link],
            check=True,
        )  # fmt: skip
