"""Host tools and the lab's own files."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from nodeprep.errors import ToolFailure
from nodeprep.lab import shell


def test_a_tool_that_fails_says_why() -> None:
    with pytest.raises(ToolFailure, match=r"failed \(3\): broken"):
        shell.run(["sh", "-c", "echo broken >&2; exit 3"])


def test_a_tool_that_is_missing_is_named() -> None:
    with pytest.raises(ToolFailure, match="no-such-tool is not installed"):
        shell.run(["no-such-tool"])


def test_a_tool_that_never_ends_is_ended() -> None:
    with pytest.raises(ToolFailure, match="took more than"):
        shell.run(["sleep", "30"], timeout_s=0.1)


def test_standard_input_is_given_and_never_the_terminals() -> None:
    assert shell.run(["cat"], text="word") == "word"
    assert shell.run(["cat"]) == ""


def test_a_file_is_replaced_whole_and_with_its_mode(tmp_path: Path) -> None:
    file = tmp_path / "new" / "file"
    shell.write_atomic(file, "one", mode=0o600)
    shell.write_atomic(file, "two", mode=0o600)
    assert file.read_text() == "two"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [path.name for path in file.parent.iterdir()] == ["file"]


def test_a_tree_with_a_mount_in_it_is_not_walked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tree").mkdir()
    monkeypatch.setattr(shell, "unmount_under", lambda _path: None)
    monkeypatch.setattr(shell, "mounts_under", lambda path: [path / "mounted"])
    with pytest.raises(ToolFailure, match="still mounted"):
        shell.remove_tree(tmp_path / "tree")
    assert (tmp_path / "tree").is_dir()


def test_links_out_of_a_tree_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "file").touch()
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "link").symlink_to(tmp_path / "kept")
    shell.remove_tree(tmp_path / "tree")
    shell.remove_tree(tmp_path / "tree")
    assert (tmp_path / "kept" / "file").exists()
