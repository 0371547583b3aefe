"""Signals: at once while loading, at a chosen point while training."""

from __future__ import annotations

import os
import signal

import pytest

from trainer.signals import Interrupted, Signals


def test_immediate_until_deferred() -> None:
    Signals()
    with pytest.raises(Interrupted) as caught:
        os.kill(os.getpid(), signal.SIGTERM)
    assert caught.value.number == signal.SIGTERM


def test_deferred_until_checked_and_the_second_is_the_default() -> None:
    signals = Signals()
    signals.defer()
    signals.check()
    os.kill(os.getpid(), signal.SIGINT)
    with pytest.raises(Interrupted):
        signals.check()
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
