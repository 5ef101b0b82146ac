"""`nodeprep init`: writes a starter inventory and a hardware profile, and overwrites nothing."""

from __future__ import annotations

import re
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated

import typer

from nodeprep.errors import BadInput
from nodeprep.resources import data_dir

_STARTER = Path(__file__).resolve().parent.parent / "starter" / "inventory.yaml"
_SITE = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")
_SCHEMAS = ("inventory.schema.json", "profile.schema.json")
_PROFILE_SCHEMA = "$schema=../../docs/schema/profile.schema.json"


def init(
    directory: Annotated[
        Path, typer.Argument(metavar="[DIR]", help="Folder to write into; made when missing.")
    ] = Path(),
    site: Annotated[
        str, typer.Option("--site", help="Name of the site. [default: the folder's name]")
    ] = "",
    profile: Annotated[
        str, typer.Option("--profile", help="Hardware class to start from.")
    ] = "a100-sxm4-40g-x4",
) -> None:
    """Write a starter inventory and profile, with comments.

    Example: nodeprep init la --profile a100-sxm4-40g-x4
    """
    for path in write(directory, site, profile):
        typer.echo(f"wrote {path}")
    inventory = _inventory(directory, _site(directory, site))
    typer.echo(
        f"\nNext:\n"
        f"  1. put your nodes' addresses into {inventory}\n"
        f"  2. make {inventory.parent / 'profiles' / f'{profile}.yaml'} say what you rented\n"
        f"  3. nodeprep validate {inventory}\n"
        f"  4. export NODEPREP_BOOTSTRAP_PASSWORD (or be asked), then\n"
        f"     nodeprep inspect {inventory}\n"
        f"     nodeprep provision {inventory}"
    )


def write(directory: Path, site: str, profile: str) -> tuple[Path, ...]:
    """Write the starter under `directory`/inventory; the paths written.

    Raises BadInput when the profile is not known, a name is not usable, or a file exists already:
    then nothing is written at all.
    """
    site = _site(directory, site)
    texts = _texts(_inventory(directory, site), site, profile)
    there = tuple(str(path) for path in texts if path.exists())
    if there:
        raise BadInput(
            "init overwrites nothing, and these exist already",
            problems=there,
            hint="give another folder or another --site",
        )
    for path, text in texts.items():
        _create(path, text)
    return tuple(texts)


def _texts(inventory: Path, site: str, profile: str) -> dict[Path, str]:
    """What is to be written: path -> text."""
    folder = inventory.parent
    starter = _STARTER.read_text(encoding="utf-8")
    values = {"@SITE@": site, "@PROFILE@": profile, "@INVENTORY@": str(inventory)}
    for mark, value in values.items():
        starter = starter.replace(mark, value)
    own_profile = _profile(profile).replace(
        _PROFILE_SCHEMA, "$schema=../schema/profile.schema.json"
    )
    schemas = data_dir() / "docs" / "schema"
    return {
        inventory: starter,
        folder / "profiles" / f"{profile}.yaml": own_profile,
        **{folder / "schema" / name: (schemas / name).read_text("utf-8") for name in _SCHEMAS},
    }


def _profile(name: str) -> str:
    folder = data_dir() / "inventory" / "profiles"
    known = sorted(path.stem for path in folder.glob("*.yaml"))
    if name not in known:
        close = get_close_matches(name, known, n=1)
        meant = f"did you mean {close[0]}?" if close else f"there are: {', '.join(known)}"
        raise BadInput(f"profile {name!r} is not known", hint=meant)
    return (folder / f"{name}.yaml").read_text(encoding="utf-8")


def _site(directory: Path, site: str) -> str:
    if site:
        if not _SITE.fullmatch(site):
            raise BadInput(
                f"--site {site!r} is no name for a site",
                hint="lower case letters, digits and inner hyphens, such as la or fra-2",
            )
        return site
    from_folder = re.sub(r"[^a-z0-9]+", "-", directory.resolve().name.lower()).strip("-")
    return from_folder or "site"


def _inventory(directory: Path, site: str) -> Path:
    return directory / "inventory" / f"{site}.yaml"


def _create(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise BadInput(f"{path} cannot be written: {error.strerror}") from None
