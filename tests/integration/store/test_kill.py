"""kill -9 in the middle of writing: what was confirmed is there, and nothing is torn."""

import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from supervisor.store.records import RunRecord
from supervisor.store.store import Store
from tests.integration.store.writer import ROUTES, RUNS, message_count, stream

KILLS = 5


async def test_kill_9_in_the_middle_of_writing(tmp_path):
    chance = random.Random(7)
    folder = tmp_path / "data"
    for kill in range(KILLS):
        confirmed = _write_and_kill(folder, kill, chance.uniform(0.02, 0.5))
        store = await Store.open(folder)
        try:
            await _check(store, confirmed)
        finally:
            await store.close()


def _write_and_kill(folder: Path, seed: int, after_s: float) -> dict[str, int]:
    """The last confirmed version of each run."""
    child = subprocess.Popen(
        [sys.executable, "-m", "tests.integration.store.writer", folder, str(seed)], stdout=subprocess.PIPE
    )
    assert child.stdout is not None
    with child.stdout as stdout:
        assert stdout.readline() == b"ready\n"
        assert stdout.readline().endswith(b"\n")
        time.sleep(after_s)  # when it is killed must not depend on what it just did
        child.send_signal(signal.SIGKILL)
        lines = stdout.read().decode().split("\n")[:-1]
    child.wait()
    return {run_id: int(version) for run_id, version in (line.split() for line in lines)}


async def _check(store: Store, confirmed: dict[str, int]) -> None:
    runs = [await store.load_run(run_id) for run_id in await store.living_runs()]
    assert len(runs) == RUNS
    for record in runs:
        assert record.run.version >= confirmed.get(record.run.id, 0)
        await _check_log(store, record)
        await _check_outbox(store, record)
    after, count = 0, 0
    while page := await store.events(after=after, limit=1000):
        assert [event.seq for event in page] == list(range(after + 1, after + len(page) + 1))
        after, count = page[-1].seq, count + len(page)
    assert count > 0


async def _check_log(store: Store, record: RunRecord) -> None:
    """State, cursor and log speak of the same bytes, and each byte is the one that was sent."""
    last = record.records[1]
    assert last.detector_state is not None
    assert int(last.detector_state.split()[0]) == last.log_cursor == await store.log_end(record.run.id, 1)
    position = 0
    while True:
        read = await store.read_log(record.run.id, 1, position, 1_000_000)
        assert read.data == stream(read.offset, len(read.data))
        if read.next_offset == position:
            break
        position = read.next_offset
    assert position == last.log_cursor


async def _check_outbox(store: Store, record: RunRecord) -> None:
    """Each message once for each route, and none that the run does not know of."""
    found = await store.deliveries(run_id=record.run.id, limit=1_000_000)
    expected = sorted((number, route.id) for number in range(message_count(record)) for route in ROUTES)
    assert sorted((json.loads(one.body)["data"]["n"], one.route) for one in found) == expected
