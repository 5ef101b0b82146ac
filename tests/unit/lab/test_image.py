"""The image cache: whole or not at all, keyed by content, and small."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nodeprep.lab import build, image


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of its own, and layers that cost nothing."""
    monkeypatch.setenv("NODEPREP_CACHE", str(tmp_path))
    monkeypatch.setattr(build, "base", lambda folder: (folder / "root").mkdir())
    monkeypatch.setattr(build, "sim", lambda folder, base: (folder / "root").mkdir())
    return tmp_path / "lab-images"


def test_the_second_time_nothing_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    first = image.ensure()
    monkeypatch.setattr(build, "base", None)
    monkeypatch.setattr(build, "sim", None)
    assert image.ensure() == first
    assert all(layer.is_dir() for layer in first.layers)


def test_the_stand_ins_lie_over_the_base() -> None:
    built = image.ensure()
    assert built.layers == (built.sim / "root", built.base / "root")


def test_a_failed_build_leaves_nothing(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def half(folder: Path) -> None:
        (folder / "root").mkdir()
        raise RuntimeError("mirror away")

    monkeypatch.setattr(build, "base", half)
    with pytest.raises(RuntimeError, match="mirror away"):
        image.ensure()
    assert [path.name for path in cache.iterdir()] == [".lock"]


def test_what_a_killed_build_left_is_swept(cache: Path) -> None:
    (cache / ".building-base-dead" / "root").mkdir(parents=True)
    image.ensure()
    assert not (cache / ".building-base-dead").exists()


def old_layers(cache: Path, count: int) -> list[Path]:
    made = []
    for number in range(count):
        for kind in ("base", "sim"):
            path = cache / f"{kind}-old{number}"
            path.mkdir(parents=True)
            os.utime(path, (number, number))
            made.append(path)
    return made


def test_two_of_each_layer_are_kept(cache: Path) -> None:
    old_layers(cache, 4)
    built = image.ensure()
    assert {path.name for path in cache.glob("*-*")} == {
        built.base.name,
        built.sim.name,
        "base-old3",
        "sim-old3",
    }


def test_what_a_lab_stands_on_is_kept(cache: Path) -> None:
    oldest = old_layers(cache, 4)[:2]
    image.ensure(in_use=oldest)
    assert all(path.is_dir() for path in oldest)


def test_the_digest_sees_names_bytes_and_salt_but_no_byte_code(tmp_path: Path) -> None:
    folder = tmp_path / "sim"
    (folder / "__pycache__").mkdir(parents=True)
    (folder / "a.py").write_text("1")
    plain = image.digest([folder])
    (folder / "__pycache__" / "a.pyc").write_text("x")
    assert image.digest([folder]) == plain
    assert image.digest([folder], salt="other") != plain
    (folder / "a.py").write_text("2")
    changed = image.digest([folder])
    (folder / "a.py").rename(folder / "b.py")
    assert len({plain, changed, image.digest([folder])}) == 3
