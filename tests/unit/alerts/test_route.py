"""Routes: their ids, what people see of them, secrets that are none."""

import base64

import pytest

from supervisor.alerts.route import routes_of
from supervisor.model.errors import InvalidInput
from supervisor.model.settings import WebhookSettings

SECRET = "whsec_" + base64.b64encode(bytes(range(32))).decode()


def settings(url="https://hooks.example.org/T0/B0/token?key=1", secret=SECRET, **rest) -> WebhookSettings:
    return WebhookSettings(url=url, secret=secret, **rest)


def test_an_address_is_shown_without_what_may_be_secret():
    [route] = routes_of([settings("https://ada:pw@hooks.example.org:8443/T0/B0/token?key=1")])
    assert route.shown == "https://hooks.example.org:8443/…"
    assert route.row().shown == route.shown
    assert "token" not in repr(route.row())


def test_the_id_is_that_of_the_address():
    [one] = routes_of([settings()])
    [same] = routes_of([settings(types=("run.finished",), evidence=False)])
    [other] = routes_of([settings("https://elsewhere.example.org/")])
    assert one.id == same.id != other.id
    assert same.row().types == ("run.finished",)
    assert same.row().evidence is False


@pytest.mark.parametrize(
    ("secret", "problem"),
    [
        ("", "is empty"),
        ("hunter2", "does not begin with whsec_"),
        ("whsec_!!!", "is no base64"),
        ("whsec_" + base64.b64encode(b"short").decode(), "has 5 bytes, not 24 to 64"),
        (SECRET + " whsec_AAAA", "has 3 bytes"),
    ],
)
def test_a_secret_that_is_none_says_how_to_make_one(secret, problem):
    with pytest.raises(InvalidInput) as caught:
        routes_of([settings(secret=secret)])
    assert problem in str(caught.value)
    assert "openssl rand" in str(caught.value)
    assert secret == "" or secret.split()[-1] not in str(caught.value)


def test_an_address_twice_is_refused():
    with pytest.raises(InvalidInput, match="same address"):
        routes_of([settings(), settings()])
