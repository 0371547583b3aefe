"""Signatures that receivers can verify, and what answers mean."""

import base64
from datetime import UTC, datetime, timedelta, timezone

import pytest
from standardwebhooks import Webhook

from supervisor.alerts.retry import PAUSES_S, next_try
from supervisor.alerts.route import WebhookRoute
from supervisor.alerts.webhook import headers, read_answer

OLD = "whsec_" + base64.b64encode(bytes(range(32))).decode()
NEW = "whsec_" + base64.b64encode(bytes(range(1, 33))).decode()
NOW = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize("zone", [UTC, timezone(timedelta(hours=9))])
@pytest.mark.parametrize("secret", [OLD, NEW])
def test_receivers_of_either_secret_can_verify_it(zone, secret):
    route = WebhookRoute(url="https://a.example.org", secret=f"{OLD} {NEW}")
    body = '{"sentence": "größer"}'
    now = datetime.now(zone)  # the verifier compares with the real clock
    sent = headers(route, "msg_1", body, now)
    assert Webhook(secret).verify(body.encode(), sent) == {"sentence": "größer"}
    assert sent["webhook-id"] == "msg_1"


def test_another_body_does_not_verify():
    route = WebhookRoute(url="https://a.example.org", secret=OLD)
    sent = headers(route, "msg_1", "{}", datetime.now(UTC))
    with pytest.raises(Exception, match="No matching signature"):
        Webhook(OLD).verify(b'{"a": 1}', sent)


@pytest.mark.parametrize(
    ("status", "retry_after", "result", "pause_s"),
    [
        (200, None, "delivered", None),
        (204, "30", "delivered", None),
        (301, None, "failed", None),
        (400, "30", "failed", None),
        (410, None, "gone", None),
        (429, "30", "failed", 30.0),
        (503, "Fri, 01 May 2026 12:02:00 GMT", "failed", 120.0),
        (503, "Fri, 01 May 2026 11:00:00 GMT", "failed", 0.0),
        (503, "soon", "failed", None),
        (500, None, "failed", None),
    ],
)
def test_what_an_answer_means(status, retry_after, result, pause_s):
    answer = read_answer(status, retry_after, NOW)
    assert (answer.result, answer.status, answer.retry_after_s) == (result, status, pause_s)


def test_the_pauses_grow_and_end():
    pauses = [next_try(tries, NOW, retry_after_s=None, chance=0.0) for tries in range(1, len(PAUSES_S) + 1)]
    assert [(one - NOW).total_seconds() for one in pauses if one] == list(PAUSES_S)
    assert next_try(len(PAUSES_S) + 1, NOW, retry_after_s=None, chance=0.0) is None


def test_jitter_adds_at_most_a_tenth_and_a_receiver_at_most_a_day():
    assert next_try(1, NOW, retry_after_s=None, chance=1.0) == NOW + timedelta(seconds=5.5)
    assert next_try(1, NOW, retry_after_s=60, chance=0.0) == NOW + timedelta(seconds=60)
    assert next_try(2, NOW, retry_after_s=60, chance=0.0) == NOW + timedelta(seconds=300)
    assert next_try(1, NOW, retry_after_s=1e9, chance=0.0) == NOW + timedelta(days=1)
    assert next_try(2, NOW, retry_after_s=None, chance=0.0, factor=0.01) == NOW + timedelta(seconds=3)
