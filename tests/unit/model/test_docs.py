"""Pages that come from the code are the code's."""

from __future__ import annotations

from pathlib import Path

import pytest
from scripts import docs

from nodeprep.model.lifecycle import Event, State


@pytest.mark.parametrize("path", sorted(docs.pages()), ids=lambda path: path.name)
def test_it_is_current(path: Path) -> None:
    assert path.read_text(encoding="utf-8") == docs.pages()[path], "run scripts/docs.py"


def test_check_tells_of_a_stale_page_and_leaves_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(docs, "DOCS", tmp_path / "docs")
    assert docs.main(["--check"]) == 1
    assert "docs/lifecycle.md is out of date" in capsys.readouterr().out
    assert docs.main([]) == 0
    assert docs.main(["--check"]) == 0


def test_every_state_and_event_is_explained() -> None:
    assert set(docs.MEANINGS) == set(State)
    assert set(docs.HAPPENINGS) == set(Event)
