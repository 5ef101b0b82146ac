"""For every test of acceptance: a pytest inside pytest, and simulated boards."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.accept.nodes import FakeNode, simulated_node


@pytest.fixture(autouse=True)
def as_in_the_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker turns off what a site's environment adds to pytest."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)


@pytest.fixture
def node(tmp_path: Path) -> FakeNode:
    """A healthy GPU node of the lab: four A100 in a mesh."""
    return simulated_node(tmp_path / "node")
