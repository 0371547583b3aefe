"""A parcel of secrets arrives whole or not at all, and nothing is left of it."""

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from supervisor.probe import delivery

VALUES = {"KEY": "v" * 200, "LONG": "x" * 80_000, "ODD": "Ä\"\n'$"}


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery, "RECEIVE_S", 20.0)


def test_it_arrives_and_leaves_nothing(tmp_path: Path) -> None:
    delivery.prepare(str(tmp_path))
    assert stat.S_IMODE((tmp_path / delivery.FIFO).stat().st_mode) == 0o600
    with ThreadPoolExecutor(1) as pool:
        received = pool.submit(delivery.receive, str(tmp_path))
        assert delivery.deliver(str(tmp_path), delivery.packed(VALUES))
        assert received.result() == VALUES
    assert not list(tmp_path.iterdir())


def test_a_parcel_that_was_cut_off_is_followed_by_a_whole_one(tmp_path: Path) -> None:
    delivery.prepare(str(tmp_path))
    with ThreadPoolExecutor(1) as pool:
        received = pool.submit(delivery.receive, str(tmp_path))
        writer = os.open(tmp_path / delivery.FIFO, os.O_WRONLY)
        os.write(writer, delivery.packed(VALUES)[:700])
        os.close(writer)  # as when its probe is killed
        delivery.prepare(str(tmp_path))
        assert delivery.waits(str(tmp_path))
        assert delivery.deliver(str(tmp_path), delivery.packed(VALUES))
        assert received.result() == VALUES


def test_nobody_comes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery, "RECEIVE_S", 0.05)
    assert delivery.receive(str(tmp_path)) is None
    for end in (lambda: delivery.receive(str(tmp_path)), lambda: delivery.deliver(str(tmp_path), b"x") or None):
        delivery.prepare(str(tmp_path))
        assert end() is None
        assert not list(tmp_path.iterdir())


def test_what_is_no_fifo_of_ours_is_replaced(tmp_path: Path) -> None:
    (tmp_path / delivery.FIFO).write_text("a file")
    delivery.prepare(str(tmp_path))
    assert delivery.waits(str(tmp_path))
