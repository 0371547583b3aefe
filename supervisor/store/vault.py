"""Values encrypted at rest: AES-256-GCM with the secret's name bound in, so that no row can pass for another.

The key is a systemd credential where there is one, else a file of mode 0600 in the data folder that is made when the
first secret is set. It is read anew each time: a key that was put back works at once.
"""

import base64
import binascii
import hashlib
import os
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from supervisor.model.errors import SecretsLocked

KEY_FILE = "secrets.key"
CREDENTIAL = "vigil-secrets-key"
"""The name of the systemd credential (LoadCredential=, LoadCredentialEncrypted=)."""
KEY_BYTES = 32
_FORMAT = b"\x01"
_ID_BYTES = 8
_NONCE_BYTES = 12


class Vault:
    """Seals and opens values. Every call may raise SecretsLocked, which says where the key was looked for."""

    def __init__(self, data_folder: Path, credentials: str | None = None) -> None:
        """`credentials` is systemd's $CREDENTIALS_DIRECTORY."""
        self._file = data_folder / KEY_FILE
        self._credential = Path(credentials) / CREDENTIAL if credentials else None

    def seal(self, name: str, value: str, *, first: bool) -> bytes:
        """The encrypted value. A missing key file is made for the first secret only: later it would lock the rest."""
        key = self._key(make=first)
        nonce = os.urandom(_NONCE_BYTES)
        return _FORMAT + _id_of(key) + nonce + AESGCM(key).encrypt(nonce, value.encode(), name.encode())

    def open(self, name: str, sealed: bytes) -> str:
        """The value again."""
        key = self._key(make=False)
        head = len(_FORMAT) + _ID_BYTES
        if sealed[:head] != _FORMAT + _id_of(key):
            raise SecretsLocked(
                f"The secret {name} was encrypted with another key than that in {self._place}.", remedy=_remedy(name)
            )
        nonce, text = sealed[head : head + _NONCE_BYTES], sealed[head + _NONCE_BYTES :]
        try:
            return AESGCM(key).decrypt(nonce, text, name.encode()).decode()
        except (InvalidTag, ValueError) as error:
            raise SecretsLocked(
                f"The stored value of the secret {name} is damaged.", remedy=f"Set it again: vigil secret set {name}"
            ) from error

    @property
    def _place(self) -> Path:
        return self._credential if self._credential is not None and self._credential.exists() else self._file

    def _key(self, *, make: bool) -> bytes:
        place = self._place
        try:
            if place is self._file and place.stat().st_mode & 0o077:
                raise SecretsLocked(f"The key {place} may be read by others.", remedy=f"chmod 600 {place}")
            return _decoded(place.read_bytes(), place)
        except FileNotFoundError:
            if make:
                return self._made()
            raise SecretsLocked(
                f"The key that the secrets are encrypted with is not there: {place}.", remedy=_remedy("NAME")
            ) from None
        except OSError as error:
            raise SecretsLocked(
                f"The key {place} cannot be read: {error.strerror}.", remedy="The daemon's user must be able to."
            ) from error

    def _made(self) -> bytes:
        key = os.urandom(KEY_BYTES)
        try:
            descriptor = os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(base64.b64encode(key) + b"\n")
                file.flush()
                os.fsync(descriptor)
            folder = os.open(self._file.parent, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        except OSError as error:
            raise SecretsLocked(
                f"The key {self._file} cannot be written: {error.strerror}.", remedy="Make room in the data folder."
            ) from error
        return key


def _decoded(text: bytes, place: Path) -> bytes:
    try:
        key = base64.b64decode(text.strip().replace(b"-", b"+").replace(b"_", b"/"), validate=True)
    except binascii.Error:
        key = b""
    if len(key) != KEY_BYTES:
        raise SecretsLocked(
            f"{place} holds no key: {KEY_BYTES} bytes as base64 are expected.",
            remedy="Put the key back from the backup; a new one is made by: openssl rand -base64 32",
        )
    return key


def _id_of(key: bytes) -> bytes:
    """Which key it was, without a hint at it."""
    return hashlib.sha256(b"vigil secrets key" + key).digest()[:_ID_BYTES]


def _remedy(name: str) -> str:
    return (
        "Put the key back from the backup. Without it each secret must be removed and set again: "
        f"vigil secret rm {name} && vigil secret set {name}"
    )
