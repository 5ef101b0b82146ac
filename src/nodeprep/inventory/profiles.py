"""Finds and validates hardware profiles."""

from __future__ import annotations

from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from nodeprep.errors import BadInput
from nodeprep.inventory.check import explain
from nodeprep.inventory.roles import read_yaml
from nodeprep.model.profile import Profile


@cache
def profile(name: str, folders: tuple[Path, ...]) -> Profile:
    """The profile `name`, from the first of `folders` that has it. Raises BadInput."""
    for folder in folders:
        path = folder / f"{name}.yaml"
        if path.is_file():
            return _read(name, path)
    known = sorted({path.stem for folder in folders for path in folder.glob("*.yaml")})
    close = get_close_matches(name, known, n=1)
    meant = f"did you mean {close[0]!r}?" if close else f"there are: {', '.join(known) or 'none'}"
    raise BadInput(f"profile {name!r} does not exist; {meant}")


def _read(name: str, path: Path) -> Profile:
    data: Any = read_yaml(path)
    if not isinstance(data, dict):
        raise BadInput(f"{path}: a profile is a mapping")
    try:
        found = Profile.model_validate(data)
    except ValidationError as error:
        problems = tuple(f"{path}: {line}" for line in explain(error))
        raise BadInput(f"profile {name!r} is not valid", problems=problems) from None
    if found.name != name:
        raise BadInput(f"{path}: key `name` is {found.name!r}, the file says {name!r}")
    return found
