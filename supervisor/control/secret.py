"""Secrets by name: set, listed and removed by people, opened only for a launch."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from supervisor.model.errors import Fault, InvalidInput, SecretsLocked
from supervisor.model.reading import parse
from supervisor.model.secret import SecretInfo, check_value
from supervisor.model.spec import Scalar, Spec
from supervisor.probe.delivery import MAX_PARCEL_BYTES, packed
from supervisor.store.store import Store
from supervisor.store.vault import Vault


class Parcel(NamedTuple):
    """What a launch is confided: the values, packed for the way, or why there are none."""

    data: bytes = b""
    lacking: str | None = None


NOTHING = Parcel()


class Secrets:
    """All that the daemon does with secrets. Values leave it in a Parcel, and nowhere else."""

    def __init__(self, store: Store, vault: Vault, now: Callable[[], datetime]) -> None:
        """Reads nothing yet."""
        self._store = store
        self._vault = vault
        self._now = now

    async def put(self, name: str, value: str, *, by: str) -> SecretInfo:
        """Sets a secret, new or not; runs get it at their next launch. InvalidInput, SecretsLocked."""
        parse(SecretInfo, {"name": name, "set_at": self._now(), "set_by": by}, source="the secret")
        check_value(name, value)
        first = not await self._store.secrets.count()
        return await self._store.secrets.put(name, self._vault.seal(name, value, first=first), by, self._now())

    async def all(self) -> list[SecretInfo]:
        """Names, when and by whom they were set, which runs use them."""
        return await self._store.secrets.all()

    async def remove(self, name: str, *, by: str) -> SecretInfo:
        """Forgets one; runs that use it are not launched again until it is set. NotFound."""
        return await self._store.secrets.remove(name, by, self._now())

    async def require(self, names: Sequence[str]) -> None:
        """InvalidInput where one of them is not set, SecretsLocked where one cannot be opened."""
        known = await self._store.secrets.sealed(tuple(names))
        faults = [
            Fault(place="secrets", value=name, detail=f"{name} is not set", remedy=f"vigil secret set {name}")
            for name in names
            if name not in known
        ]
        if faults:
            raise InvalidInput("The run needs secrets that are not set.", faults=faults)
        for name, sealed in known.items():
            self._vault.open(name, sealed)

    async def complete(self, spec: Spec) -> None:
        """InvalidInput where a launch of `spec` would lack a secret now."""
        lacking = (await self.parcel(spec)).lacking
        if lacking is not None:
            raise InvalidInput(lacking)

    async def parcel(self, spec: Spec) -> Parcel:
        """The values for a launch; a sentence with the remedy where one is lacking."""
        if not spec.secrets:
            return NOTHING
        known = await self._store.secrets.sealed(spec.secrets)
        unset = [name for name in spec.secrets if name not in known]
        if unset:
            what = f"the secret {unset[0]} is" if len(unset) == 1 else f"the secrets {', '.join(unset)} are"
            mend = " && ".join(f"vigil secret set {name}" for name in unset)
            return Parcel(lacking=f"{what} not set. {mend} && vigil start {spec.name}")
        try:
            data = packed({name: self._vault.open(name, sealed) for name, sealed in known.items()})
        except SecretsLocked as error:
            return Parcel(lacking=f"{error.detail} {error.remedy}")
        if len(data) > MAX_PARCEL_BYTES:
            return Parcel(
                lacking=f"its secrets together have {len(data)} bytes; {MAX_PARCEL_BYTES} can be handed over."
            )
        return Parcel(data)


def refuse_turning(spec: Spec, overrides: Mapping[str, Scalar]) -> None:
    """InvalidInput where a secret would be set like any variable: its value would stand in every record."""
    for key in overrides:
        if key.removeprefix("env.") in spec.secrets and key.startswith("env."):
            name = key.removeprefix("env.")
            raise InvalidInput(f"{name} is a secret of this run.", remedy=f"Set it there: vigil secret set {name}")
