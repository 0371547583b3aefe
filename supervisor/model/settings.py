"""The daemon's settings: a TOML file, overridden by `VIGIL_…` variables, overridden by the command line."""

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, SecretStr
from pydantic_settings import BaseSettings, EnvSettingsSource, PydanticBaseSettingsSource, SettingsConfigDict

from supervisor.model.errors import Fault, InvalidInput, NotFound
from supervisor.model.incident import MessageType
from supervisor.model.noun import Noun
from supervisor.model.reading import nearest, parse, read_mapping

DEFAULT_LISTEN = "127.0.0.1:8722"
LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
ADDRESS_FILE = "address"
"""In the data folder while a daemon serves it: where it listens."""
TOKEN_FILE = "admin.token"  # noqa: S105 - a file's name
"""In the data folder: the first token."""
ENV_PREFIX = "VIGIL_"
_OF_OTHERS = frozenset({"SERVER", "TOKEN", "CONFIG", "ATTEMPT", "RUN", "BUNDLE"})
"""Variables with our prefix that are no settings: the client's own, and those that the probe sets for a run."""


def split_listen(listen: str) -> tuple[str, int]:
    """Host and port of `HOST:PORT` or `[IPV6]:PORT`; ValueError where it is neither."""
    host, colon, port = listen.rpartition(":")
    if not colon or not host or not port.isdecimal() or int(port) > 65535:
        raise ValueError(f"{listen!r} is no HOST:PORT, such as {DEFAULT_LISTEN}")
    if host.startswith("[") and host.endswith("]"):
        return host[1:-1], int(port)
    if ":" in host:
        raise ValueError(f"{listen!r}: an IPv6 address needs brackets, such as [::1]:8722")
    return host, int(port)


def _checked_listen(listen: str) -> str:
    split_listen(listen)
    return listen


def _checked_url(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError("needs an address such as https://vigil.example.org")
    return url.rstrip("/")


def _expanded(path: Path) -> Path:
    return path.expanduser().absolute()


Folder = Annotated[Path, AfterValidator(_expanded)]
Url = Annotated[str, AfterValidator(_checked_url)]


class WebhookSettings(Noun):
    """One `[[webhook]]`: who gets a signed POST for every incident and every finished run."""

    url: Url
    """Where to."""
    secret: SecretStr
    """Signs the message (Standard Webhooks): `whsec_` and the base64 of 24 to 64 random bytes."""
    types: tuple[MessageType, ...] = ()
    """Which messages; empty: all."""
    evidence: bool = True
    """Whether lines of the run's log leave the house; without them only the sentence does."""


class RetentionSettings(Noun):
    """What the store keeps. Nothing grows without bound."""

    series_raw_hours: Annotated[float, Field(gt=0)] = 24.0
    """Device and progress series at full resolution."""
    series_rolled_up_days: Annotated[float, Field(gt=0)] = 30.0
    """The same, one point a minute."""
    log_head_bytes: Annotated[int, Field(ge=0)] = 4 * 1024 * 1024
    """The beginning of an attempt's log, always kept."""
    log_tail_bytes: Annotated[int, Field(gt=0)] = 64 * 1024 * 1024
    """The end of an attempt's log; what lies between is dropped and shown as a gap."""
    events: Annotated[int, Field(ge=1000)] = 1_000_000
    """The newest so many events."""
    settled_days: Annotated[float, Field(gt=0)] = 90.0
    """Resolved incidents and messages that were delivered or given up."""


class Settings(BaseSettings):
    """What the daemon runs by."""

    model_config = SettingsConfigDict(
        frozen=True, extra="forbid", env_prefix=ENV_PREFIX, env_nested_delimiter="__", case_sensitive=False
    )

    data_folder: Folder = Field(default_factory=lambda: default_data_folder(os.environ))
    """Database, logs, keys, the first token. Under systemd: the unit's StateDirectory."""
    listen: Annotated[str, AfterValidator(_checked_listen)] = DEFAULT_LISTEN
    """HOST:PORT of the API and the page."""
    public_url: Url | None = None
    """The address under which people reach the page; stands in messages. None: made of `listen`."""
    ssh_config: Folder | None = Field(default_factory=lambda: _default_ssh("config"))
    """OpenSSH client configuration that is honoured. None: none."""
    known_hosts: Folder | None = Field(default_factory=lambda: _default_ssh("known_hosts"))
    """Host keys that are trusted beside those pinned by `vigil node add`. None: none."""
    webhook: tuple[WebhookSettings, ...] = ()
    """Receivers of messages."""
    retention: RetentionSettings = RetentionSettings()
    """What is kept for how long."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """From which level the daemon writes to its own log."""
    log_format: Literal["auto", "text", "json"] = "auto"
    """`auto`: text on a terminal, JSON lines elsewhere (journald)."""

    @property
    def host(self) -> str:
        """The address that is listened on."""
        return split_listen(self.listen)[0]

    @property
    def port(self) -> int:
        """The port that is listened on."""
        return split_listen(self.listen)[1]

    @property
    def is_loopback(self) -> bool:
        """Only this machine can reach the API."""
        return self.host in LOOPBACK or self.host.startswith("127.")

    @property
    def url(self) -> str:
        """The page's address, without a slash at its end."""
        if self.public_url:
            return self.public_url
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)  # noqa: S104 - compared, not bound
        return f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Only what is passed in: `load_settings` merges the sources, so that every error names its place."""
        return (init_settings,)


def load_settings(config: Path | None = None, overrides: Mapping[str, Any] | None = None) -> Settings:
    """The settings from the file `config` (none: only defaults), the environment, then `overrides` that are not None.

    InvalidInput names every faulty place; NotFound when the file cannot be read.
    """
    data: dict[str, Any] = {}
    source = "the settings"
    if config is not None:
        source = str(config)
        data = read_mapping(_text_of(config), "toml", source=source)
    _merge(data, _from_environment())
    _merge(data, {key: value for key, value in (overrides or {}).items() if value is not None})
    return parse(Settings, data, source=source)


def default_data_folder(environ: Mapping[str, str]) -> Path:
    """Where the daemon keeps its files when nobody says so."""
    if environ.get("STATE_DIRECTORY"):
        return Path(environ["STATE_DIRECTORY"].split(":")[0])
    base = environ.get("XDG_DATA_HOME") or str(Path.home() / ".local/share")
    return Path(base) / "vigil"


def _default_ssh(name: str) -> Path | None:
    """`~/.ssh/NAME` in the foreground; under systemd the data folder's own, so that no login folder is needed."""
    state = os.environ.get("STATE_DIRECTORY")
    path = Path(state.split(":")[0]) / "ssh" / name if state else Path.home() / ".ssh" / name
    return path if path.is_file() else None


def _text_of(config: Path) -> str:
    try:
        return config.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise NotFound(f"The settings file {config} cannot be read: {reason}.") from error


def _from_environment() -> dict[str, Any]:
    known = list(Settings.model_fields)
    for name in os.environ:
        word = name.removeprefix(ENV_PREFIX).split("__")[0]
        if not name.startswith(ENV_PREFIX) or word in _OF_OTHERS or word.lower() in known:
            continue
        close = nearest(word, known)
        # A stranger's variable (a service link, say) is no mistake; one letter off is.
        if close and len(set(word.lower()) ^ set(close)) <= 2:
            fault = Fault(place=name, detail="unknown variable", remedy=f"did you mean {ENV_PREFIX}{close.upper()}?")
            raise InvalidInput("The environment holds a setting that does not exist.", faults=[fault])
    try:
        return EnvSettingsSource(Settings)()
    except Exception as error:
        raise InvalidInput(
            f"A {ENV_PREFIX}… variable cannot be read: {error}", remedy="Lists and tables are written as JSON."
        ) from error


def _merge(into: dict[str, Any], other: Mapping[str, Any]) -> None:
    for key, value in other.items():
        if isinstance(value, Mapping) and isinstance(into.get(key), dict):
            _merge(into[key], value)
        else:
            into[key] = value


def toml_value(text: str) -> Any:
    """`text` as a TOML value (`64`, `0.5`, `true`, `"x"`, `[1, 2]`), or as the plain string that it is."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (tomllib.TOMLDecodeError, KeyError):
        return text
