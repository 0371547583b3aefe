"""Launch, observe, exit: the way that every attempt goes."""

from tests.integration.probe.conftest import R1, Probe


def test_a_command_is_launched_and_its_end_seen(probe: Probe) -> None:
    assert probe.call("claim", run=R1, token=1) == {"token": 1}
    reply = probe.launch(R1, "echo hello; exit 3")
    assert (reply["state"], reply["why"]) == ("started", None)
    seen = probe.ended(R1)
    assert seen["exit"]["code"] == 3
    assert seen["exit"]["signal"] is None
    assert seen["exit"]["failure"] is None
    assert seen["log_data"] == b"hello\r\n"
    assert seen["started"] is True
    assert seen["exit"]["started_unix_s"] <= seen["exit"]["at_unix_s"]


def test_a_signal_is_seen_as_a_signal(probe: Probe) -> None:
    probe.launch(R1, ["sh", "-c", "kill -SEGV $$"])
    seen = probe.ended(R1)
    assert (seen["exit"]["code"], seen["exit"]["signal"]) == (None, "SIGSEGV")


def test_a_second_launch_of_the_attempt_finds_the_first(probe: Probe) -> None:
    probe.launch(R1, "sleep 100")
    assert probe.launch(R1, "sleep 100")["state"] == "already"
    assert probe.observe(R1)["processes"]["alive"] == 1
