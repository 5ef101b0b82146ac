"""The floor: pyinfra connects to every target and runs `true`, through its API, nothing else."""

from gevent import monkey

monkey.patch_all()  # before anything imports sockets

import json  # noqa: E402
import os  # noqa: E402
import sys  # noqa: E402
from pathlib import Path  # noqa: E402

from gevent.pool import Pool  # noqa: E402
from pyinfra.api import Config, Inventory, State  # noqa: E402
from pyinfra.api.connect import connect_all  # noqa: E402


def main() -> int:
    targets = [tuple(t) for t in json.loads(Path(os.environ["BENCH_PYINFRA"]).read_text())]
    concurrency = int(sys.argv[1])
    state = State(Inventory((targets, {})), Config(PARALLEL=concurrency))
    connect_all(state)
    hosts = list(state.inventory.get_active_hosts())
    ended = Pool(concurrency).map(lambda host: host.run_shell_command("true")[0], hosts)
    return 0 if len(ended) == len(targets) and all(ended) else 1


if __name__ == "__main__":
    sys.exit(main())
