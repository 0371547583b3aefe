"""What systemd is told."""

import os
import socket

import pytest

from supervisor.cli.systemd import notify, watchdog_interval_s


@pytest.fixture
def manager(tmp_path, monkeypatch):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.bind(str(tmp_path / "n"))
        channel.setblocking(False)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "n"))
        yield channel


def test_a_message_arrives(manager):
    notify("READY=1")
    assert manager.recv(100) == b"READY=1"


def test_a_manager_that_does_not_read_stops_nobody(manager):
    for _ in range(5000):
        notify("WATCHDOG=1")
    assert manager.recv(100) == b"WATCHDOG=1"


def test_without_systemd_nothing_happens(monkeypatch, tmp_path):
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    notify("READY=1")
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "gone"))
    notify("READY=1")


@pytest.mark.parametrize(
    ("usec", "pid", "interval_s"),
    [("60000000", None, 30.0), ("60000000", "ours", 30.0), ("60000000", "1", None), ("", None, None)],
)
def test_the_watchdog_is_fed_twice_as_often_as_needed(monkeypatch, usec, pid, interval_s):
    monkeypatch.setenv("WATCHDOG_USEC", usec)
    if pid:
        monkeypatch.setenv("WATCHDOG_PID", str(os.getpid()) if pid == "ours" else pid)
    else:
        monkeypatch.delenv("WATCHDOG_PID", raising=False)
    assert watchdog_interval_s() == interval_s
