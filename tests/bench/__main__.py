"""`make bench`: every module here that has a `measure()`; prints a table and writes bench.json.

`python -m tests.bench [WORDS]`: only modules with one of these words in their name.
"""

import json
import pkgutil
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

RESULTS = Path("bench.json")


def main(words: list[str]) -> int:
    """Runs them one after the other; 1 when one could not run. A missed target is said: a busy machine is no error."""
    rows: list[dict[str, Any]] = []
    failed: list[str] = []
    for name in modules():
        if words and not any(word in name for word in words):
            continue
        sys.stderr.write(f"{name} …\n")
        try:
            rows += import_module(f"tests.bench.{name}").measure()
        except Exception as error:  # one that cannot run must not cost the others
            failed.append(f"{name}: {error}")
    RESULTS.write_text(json.dumps(rows, indent=1) + "\n", "utf-8")
    Console().print(table_of(rows))
    for line in failed:
        sys.stderr.write(f"not measured: {line}\n")
    missed = [row["name"] for row in rows if not reached(row)]
    if missed:
        sys.stderr.write(f"missed: {', '.join(missed)}\n")
    return 1 if failed else 0


def modules() -> Iterator[str]:
    """Names of the modules that measure something."""
    for found in pkgutil.iter_modules([str(Path(__file__).parent)]):
        source = Path(__file__).with_name(f"{found.name}.py")
        if not found.name.startswith("_") and "def measure(" in source.read_text("utf-8"):
            yield found.name


def reached(row: dict[str, Any]) -> bool:
    """The target is met; without one there is nothing to miss."""
    if row["target"] is None:
        return True
    return bool(row["value"] <= row["target"] if row["better"] == "lower" else row["value"] >= row["target"])


def table_of(rows: list[dict[str, Any]]) -> Table:
    """For people."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for column in ("what", "value", "target", ""):
        table.add_column(column, justify="left" if column in ("what", "") else "right")
    for row in rows:
        sign = "≤" if row["better"] == "lower" else "≥"
        target = f"{sign} {row['target']:g} {row['unit']}" if row["target"] is not None else ""
        table.add_row(row["name"], f"{row['value']:.4g} {row['unit']}", target, "ok" if reached(row) else "MISSED")
    return table


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
