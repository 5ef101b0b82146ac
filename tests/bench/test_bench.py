"""The benchmark compares engines that look at the same things: a sabotage is seen by each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bench import engines, table
from tests.bench.engines import ENGINES, FLOOR, NODEPREP, Cost, Engine
from tests.bench.layout import Counts, Layout, describe, prepare
from tests.bench.rack import Rack, rack

pytestmark = pytest.mark.lab
_SMALL = Counts(files=2, sysctls=2, packages=2, units=2)
_LOOKING = [engine for engine in ENGINES if engine.found]


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Layout, Rack]]:
    layout = prepare(tmp_path_factory.mktemp("bench"), _SMALL)
    with rack(layout.folder, 2) as targets:
        describe(layout, targets)
        yield layout, targets


@pytest.mark.parametrize("engine", [FLOOR, NODEPREP], ids=lambda engine: engine.name)
def test_a_run_tells_what_it_cost(bench: tuple[Layout, Rack], engine: Engine) -> None:
    cost, changes = engines.run(engine, *bench)
    assert changes == set()
    assert cost.wall > 0
    assert cost.controller > 0
    assert cost.targets > 0


@pytest.mark.parametrize("engine", _LOOKING, ids=lambda engine: engine.name)
def test_a_sabotaged_file_and_nothing_else_is_what_every_engine_sees(
    bench: tuple[Layout, Rack], engine: Engine
) -> None:
    layout, targets = bench
    victim = layout.files[1]
    before = victim.read_text()
    victim.write_text(before + "sabotaged\n")
    try:
        _, changes = engines.run(engine, layout, targets)
    finally:
        victim.write_text(before)
    assert changes == {(target.name, f"file:{victim}") for target in targets.targets}


def test_the_targets_end_with_the_block(tmp_path: Path) -> None:
    layout = prepare(tmp_path, Counts(files=0, sysctls=0, packages=0, units=0))
    with rack(layout.folder, 1) as targets:
        process = targets.targets[0].process
        assert process.poll() is None
    assert process.poll() is not None


def test_ratios_are_those_of_the_medians() -> None:
    costs = {
        "floor-pyinfra": [Cost(1.0, 0.5, 0.1), Cost(3.0, 0.5, 0.1), Cost(2.0, 0.5, 0.1)],
        "nodeprep": [Cost(3.0, 0.5, 0.1)],
        "ansible": [Cost(200.0, 50.0, 9.0)],
    }
    result = table.summary(costs)
    assert result["nodeprep"]["wall_to_floor"] == 1.5
    assert result["ansible"]["controller_cpu_to_nodeprep"] == 100
    assert "| `ansible-playbook --check` | 1 | 200.00 | 50.00 | 9.0 | 100x | 100x |" in (
        table.markdown({20: result})
    )
