# pyinfra's inventory of the targets: BENCH_PYINFRA names a JSON file of [name, data] pairs.
import json
import os
from pathlib import Path

targets = [(name, data) for name, data in json.loads(Path(os.environ["BENCH_PYINFRA"]).read_text())]
