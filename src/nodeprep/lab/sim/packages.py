"""Builds what the lab serves as NVIDIA's: .deb files (by dpkg-deb and cc), and a source archive."""

from __future__ import annotations

import tempfile
from pathlib import Path

from . import deb, packages_cuda, packages_driver, source


def all_debs(key: bytes = b"") -> list[deb.Deb]:
    """Every package and version; `key` is the repository's public key, for cuda-keyring."""
    return [packages_cuda.keyring(key), *packages_driver.all_debs(), *packages_cuda.all_debs()]


def build(out_dir: Path, public_key: Path | None = None) -> None:
    """Writes all of them into `out_dir`. `public_key`: what cuda-keyring carries, as apt reads it.

    The bytes depend on this code, the key and SOURCE_DATE_EPOCH alone. Raises
    CalledProcessError or FileNotFoundError when dpkg-deb or cc fails or is missing.
    """
    out_dir.mkdir(parents=True, exist_ok=True)
    key = public_key.read_bytes() if public_key else b""
    with tempfile.TemporaryDirectory() as scratch:
        for package in all_debs(key):
            deb.build(package, Path(scratch), out_dir)
    source.write(out_dir)
