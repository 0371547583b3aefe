"""What an attempt was confided: the values of its secrets and of its `env_file`, known to the wrapper alone, and the
masker that keeps them out of whatever the attempt prints."""

import contextlib
import os
from collections.abc import Mapping
from typing import Any

from supervisor.probe import delivery, envfile, script
from supervisor.probe.masking import Masker, masked, masked_text


class Confided:
    """The values of one attempt, or what is lacking of them."""

    def __init__(
        self,
        secrets: Mapping[str, str] | None = None,
        from_file: Mapping[str, str] | None = None,
        lacking: str | None = None,
    ) -> None:
        """`lacking` is a sentence for people: with it nothing may be started."""
        self.secrets = dict(secrets or {})
        self.from_file = dict(from_file or {})
        self.lacking = lacking
        self._values = [*self.secrets.values(), *self.from_file.values()]
        self.masker = Masker([os.fsencode(value) for value in self._values])

    def masked(self, text: str) -> str:
        """`text` for a record that leaves the wrapper."""
        return masked_text(text, self._values) if self._values else text


def masked_for(launch: dict[str, Any], secrets: Mapping[str, str], data: bytes) -> bytes:
    """`data` as it may be shown where these secrets, and the launch's `env_file`, were confided to an attempt."""
    values = list(secrets.values())
    with contextlib.suppress(envfile.EnvFileError):
        values += envfile.read(script.env_file_path(launch) or "").values()
    return masked(data, [os.fsencode(value) for value in values])


def receive(attempt_folder: str, launch: dict[str, Any]) -> Confided:
    """Waits for the secrets that the launch record names, at most RECEIVE_S, and reads its `env_file`."""
    names: list[str] = launch.get("secrets") or []
    secrets: dict[str, str] = {}
    if names:
        received = delivery.receive(attempt_folder)
        if received is None:
            what = f"the secret {names[0]} was" if len(names) == 1 else f"the secrets {', '.join(names)} were"
            return Confided(lacking=f"{what} not delivered within {delivery.RECEIVE_S:.0f} s")
        missing = [name for name in names if name not in received]
        if missing:
            return Confided(lacking=f"no value was delivered for the secret {', '.join(missing)}")
        secrets = {name: received[name] for name in names}
    path = script.env_file_path(launch)
    if path is None:
        return Confided(secrets)
    try:
        return Confided(secrets, envfile.read(path))
    except envfile.EnvFileError as error:
        return Confided(secrets, lacking=str(error))
