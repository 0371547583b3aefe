"""From the end of a process to the start of the next attempt's, corrected. `python -m tests.bench.relaunch`

Both moments are the processes' own notes. No preflight; the same container.
"""

import json
import statistics
import sys
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

from supervisor.model.noun import rfc3339
from tests.bench.failing_run import lived


def measure() -> list[dict[str, Any]]:
    """Median and worst pause in seconds."""
    moments = lived()
    ordered = sorted([(at, "end") for at in moments.ends] + [(at, "start") for at in moments.starts])
    pauses = [
        later - at for (at, what), (later, following) in pairwise(ordered) if (what, following) == ("end", "start")
    ]
    at = rfc3339(datetime.now(UTC))
    rows = (("end_to_next_start_s", statistics.median(pauses), 0.5), ("end_to_next_start_worst_s", max(pauses), None))
    return [
        {"name": name, "value": value, "unit": "s", "target": target, "better": "lower", "at": at}
        for name, value, target in rows
    ]


if __name__ == "__main__":
    sys.stdout.write(json.dumps(measure(), indent=1) + "\n")
