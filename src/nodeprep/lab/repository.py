"""Flat apt repositories: a folder of .deb files, indexed and signed with a key made for it."""

from __future__ import annotations

import gzip
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nodeprep.lab.shell import run

SECRET_KEY = "repository.key"  # noqa: S105  a file name
PUBLIC_KEY = "repository.gpg"  # binary, as apt's signed-by reads it
_UID = "nodeprep lab repository"


@contextmanager
def _keyring() -> Iterator[dict[str, str]]:
    """A GnuPG home that lives as long as the block; its agent is stopped with it."""
    # A short path: the agent's socket must fit into 108 bytes.
    with tempfile.TemporaryDirectory(prefix="np-gpg-") as home:
        env = {"GNUPGHOME": home}
        try:
            yield env
        finally:
            run(["gpgconf", "--kill", "all"], env=env)


def make_key(folder: Path) -> None:
    """A signing key: `repository.key` (secret, mode 0600) and `repository.gpg` in `folder`."""
    with _keyring() as env:
        common = ["gpg", "--batch", "--quiet", "--pinentry-mode", "loopback", "--passphrase", ""]
        run([*common, "--quick-generate-key", _UID, "ed25519", "sign", "never"], env=env)
        secret = folder / SECRET_KEY
        secret.touch(mode=0o600)
        run([*common, "--yes", "--output", secret, "--export-secret-keys"], env=env)
        run(["gpg", "--batch", "--yes", "--output", folder / PUBLIC_KEY, "--export"], env=env)


def index(folder: Path, secret_key: Path) -> None:
    """Write Packages, Packages.gz, Release and InRelease for the .deb files in `folder`."""
    for name in ("Packages", "Packages.gz", "Release", "InRelease"):
        (folder / name).unlink(missing_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        # apt-ftparchive takes paths relative to where it runs: `./name.deb`.
        packages = run(["env", "-C", folder, "apt-ftparchive", "packages", "."], timeout_s=600)
        (folder / "Packages").write_text(packages)
        with gzip.GzipFile(folder / "Packages.gz", "wb", mtime=0) as stream:
            stream.write(packages.encode())
        release = Path(scratch) / "Release"
        release.write_text(run(["env", "-C", folder, "apt-ftparchive", "release", "."]))
        shutil.copy(release, folder / "Release")
    with _keyring() as env:
        run(["gpg", "--batch", "--quiet", "--import", secret_key], env=env)
        sign = ["gpg", "--batch", "--quiet", "--yes", "--clearsign", "--output"]
        run([*sign, folder / "InRelease", folder / "Release"], env=env)
