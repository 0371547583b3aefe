"""Settings: where they come from, and errors that name the nearest key."""

from pathlib import Path

import pytest

from supervisor.model.errors import InvalidInput, NotFound
from supervisor.model.settings import Settings, default_data_folder, load_settings, split_listen, toml_value


def written(folder: Path, text: str) -> Path:
    path = folder / "vigil.toml"
    path.write_text(text)
    return path


def test_file_environment_and_command_line_win_in_that_order(tmp_path, monkeypatch):
    config = written(tmp_path, 'listen = "127.0.0.1:1"\nlog_level = "debug"\n[retention]\nlog_head_bytes = 1\n')
    monkeypatch.setenv("VIGIL_RETENTION__LOG_HEAD_BYTES", "2")
    monkeypatch.setenv("VIGIL_LISTEN", "127.0.0.1:2")
    settings = load_settings(config, {"listen": "127.0.0.1:3", "data_folder": None})
    assert settings.listen == "127.0.0.1:3"
    assert settings.log_level == "debug"
    assert settings.retention.log_head_bytes == 2
    assert settings.retention.log_tail_bytes == 64 * 1024 * 1024


@pytest.mark.parametrize(
    ("text", "place", "remedy"),
    [
        ('lissten = "x:1"', "lissten", "did you mean 'listen'?"),
        ("[retention]\nlog_head_byte = 1", "retention.log_head_byte", "did you mean 'log_head_bytes'?"),
        ('[[webhook]]\nurl = "https://a"\nsecrt = "x"', "webhook.0.secrt", "did you mean 'secret'?"),
    ],
)
def test_an_unknown_key_names_the_nearest(tmp_path, text, place, remedy):
    with pytest.raises(InvalidInput) as caught:
        load_settings(written(tmp_path, text))
    fault = next(fault for fault in caught.value.faults if fault["place"] == place)
    assert fault["remedy"] == remedy


def test_a_misspelt_variable_is_an_error_and_a_strangers_is_not(monkeypatch):
    monkeypatch.setenv("VIGIL_SERVICE_PORT_8722_TCP", "tcp://10.0.0.1")
    monkeypatch.setenv("VIGIL_TOKEN", "x")
    load_settings()
    monkeypatch.setenv("VIGIL_LISTENN", "127.0.0.1:1")
    with pytest.raises(InvalidInput, match="VIGIL_LISTEN"):
        load_settings()


def test_a_missing_file_and_broken_toml_are_said(tmp_path):
    with pytest.raises(NotFound, match=r"gone\.toml"):
        load_settings(tmp_path / "gone.toml")
    with pytest.raises(InvalidInput, match="not valid TOML"):
        load_settings(written(tmp_path, "listen ="))


@pytest.mark.parametrize("listen", ["8722", ":8722", "localhost", "localhost:x", "::1:8722", "h:70000"])
def test_a_bad_address_is_refused(listen):
    with pytest.raises(InvalidInput, match="listen"):
        load_settings(None, {"listen": listen})


def test_addresses():
    assert split_listen("[::1]:80") == ("::1", 80)
    assert load_settings(None, {"listen": "[::1]:80"}).url == "http://[::1]:80"
    everywhere = load_settings(None, {"listen": "0.0.0.0:8722"})
    assert everywhere.url == "http://127.0.0.1:8722"
    assert not everywhere.is_loopback
    assert load_settings(None, {"public_url": "https://v.example/"}).url == "https://v.example"


def test_the_data_folder_follows_systemd_then_xdg():
    assert default_data_folder({"STATE_DIRECTORY": "/var/lib/vigil:/x"}) == Path("/var/lib/vigil")
    assert default_data_folder({"XDG_DATA_HOME": "/d"}) == Path("/d/vigil")
    assert default_data_folder({}) == Path.home() / ".local/share/vigil"


def test_a_secret_does_not_show_in_a_printed_value():
    settings = Settings(webhook=[{"url": "https://a.example", "secret": "whsec_abc"}])
    assert "whsec_abc" not in repr(settings)


@pytest.mark.parametrize(
    ("text", "value"),
    [("64", 64), ("0.5", 0.5), ("true", True), ("abc", "abc"), ('"64"', "64"), ("[1]", [1]), ("", "")],
)
def test_a_value_on_the_command_line(text, value):
    assert toml_value(text) == value
