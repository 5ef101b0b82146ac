"""docs/faults.md is what the tests prove."""

from __future__ import annotations

from pathlib import Path

import pytest
from scripts import faults


def test_the_page_is_current() -> None:
    assert faults.PAGE.read_text(encoding="utf-8") == faults.page(), "run scripts/faults.py"


def test_check_tells_of_a_stale_page_and_leaves_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "faults.md"
    page.write_text("another")
    monkeypatch.setattr(faults, "PAGE", page)
    assert faults.main(["--check"]) == 1
    assert "run scripts/faults.py" in capsys.readouterr().out
    assert page.read_text() == "another"
    assert faults.main([]) == 0
    assert faults.main(["--check"]) == 0


def test_each_refusal_says_what_to_do() -> None:
    rows = [line for line in faults.page().splitlines() if line.startswith("| `")]
    assert len(rows) > 80
    assert [row for row in rows if "|  |" in row] == []
