"""From the end of a process to its stored verdict, at a check interval of 5 s. `python -m tests.bench.verdict_delay`

The end is the process's own note right before it ends; the verdict counts as stored when an outsider was told of it.
"""

import json
import statistics
import sys
from datetime import UTC, datetime
from typing import Any

from supervisor.model.noun import rfc3339
from tests.bench.failing_run import lived


def measure() -> list[dict[str, Any]]:
    """Median and worst delay in seconds."""
    moments = lived()
    delays = [told - end for end, told in zip(moments.ends, moments.told, strict=True)]
    at = rfc3339(datetime.now(UTC))
    rows = (("end_to_verdict_s", statistics.median(delays), 0.2), ("end_to_verdict_worst_s", max(delays), None))
    return [
        {"name": name, "value": value, "unit": "s", "target": target, "better": "lower", "at": at}
        for name, value, target in rows
    ]


if __name__ == "__main__":
    sys.stdout.write(json.dumps(measure(), indent=1) + "\n")
