"""`nodeprep accept --level`: three levels, completed by the shell, anything else refused."""

from __future__ import annotations

from typing import Any

import pytest
import typer.main
from typer.testing import CliRunner

from nodeprep.accept.job import LEVELS
from nodeprep.cli import accept as verb
from nodeprep.cli.common import guarded
from nodeprep.cli.main import app
from nodeprep.errors import EXIT_BAD_INPUT


def option() -> Any:
    group: Any = typer.main.get_command(app)
    return next(param for param in group.commands["accept"].params if param.name == "level")


def test_the_levels_are_those_of_the_proofs() -> None:
    assert tuple(verb.Level) == LEVELS


def test_the_shell_completes_them() -> None:
    group: Any = typer.main.get_command(app)
    context = group.commands["accept"].make_context("accept", ["x"], resilient_parsing=True)
    found = option().shell_complete(context, "")
    assert [item.value for item in found] == list(LEVELS)


def test_provision_and_accept_begin_with_the_shortest() -> None:
    from nodeprep.pipeline import Options

    assert option().default == LEVELS[0] == Options.level


def test_another_level_is_bad_input() -> None:
    command = typer.main.get_command(app)
    arguments = ["accept", "inventory/lab.yaml", "--level", "forever"]
    with pytest.raises(typer.BadParameter, match="poc"):
        command.main(arguments, standalone_mode=False)
    assert guarded(lambda: command.main(arguments, standalone_mode=False)) == EXIT_BAD_INPUT


def test_so_is_an_option_that_there_is_not(capsys: pytest.CaptureFixture[str]) -> None:
    command = typer.main.get_command(app)
    arguments = ["accept", "inventory/lab.yaml", "--levle", "poc"]
    assert guarded(lambda: command.main(arguments, standalone_mode=False)) == EXIT_BAD_INPUT
    assert "bug" not in capsys.readouterr().err


@pytest.mark.parametrize("level", LEVELS)
def test_it_reaches_the_pipeline(level: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def accept(options: Any, _: Any) -> None:
        seen.append(options.level)
        raise typer.Exit

    monkeypatch.setattr("nodeprep.pipeline.accept", accept)
    CliRunner().invoke(app, ["accept", "inventory/lab.yaml", "--level", level])
    assert seen == [level]
