"""Secrets at rest: sealed, bound to their name, and a key that is gone is said."""

import base64
from pathlib import Path

import pytest
from sqlalchemy import Connection

from supervisor.model.errors import NotFound, SecretsLocked
from supervisor.model.run import RunState
from supervisor.model.spec import Spec
from supervisor.store import events, runs, secret
from supervisor.store.vault import CREDENTIAL, KEY_FILE, Vault
from tests.unit.store.conftest import NOW, turn

VALUE = "hf_Geheim-1234 \u00e4\n"


def test_the_first_secret_makes_the_key_and_any_later_vault_opens_it(tmp_path: Path) -> None:
    sealed = Vault(tmp_path).seal("A", VALUE, first=True)
    key = tmp_path / KEY_FILE
    assert key.stat().st_mode & 0o777 == 0o600
    assert Vault(tmp_path).open("A", sealed) == VALUE
    assert VALUE.encode() not in sealed
    assert Vault(tmp_path).seal("A", VALUE, first=False) != sealed, "equal values look different"


def test_a_sealed_value_belongs_to_its_name_and_is_whole(tmp_path: Path) -> None:
    vault = Vault(tmp_path)
    sealed = vault.seal("A", VALUE, first=True)
    for name, damaged in (
        ("B", sealed),
        ("A", sealed[:-1]),
        ("A", sealed[:12] + b"\0" + sealed[13:]),
        ("A", sealed[:9]),
    ):
        with pytest.raises(SecretsLocked, match="damaged") as caught:
            vault.open(name, damaged)
        assert f"vigil secret set {name}" in caught.value.remedy


def test_a_key_that_is_gone_open_to_others_or_another_is_said(tmp_path: Path) -> None:
    vault, key = Vault(tmp_path), tmp_path / KEY_FILE
    sealed = vault.seal("A", VALUE, first=True)
    kept = key.read_bytes()
    for content, mode, why in (
        (None, 0, "is not there"),
        (kept, 0o644, "read by others"),
        (base64.b64encode(b"x" * 32), 0o600, "another key"),
        (b"no key", 0o600, "holds no key"),
        (base64.b64encode(b"x" * 31), 0o600, "holds no key"),
    ):
        key.unlink()
        if content is not None:
            key.write_bytes(content)
            key.chmod(mode)
        with pytest.raises(SecretsLocked, match=why) as caught:
            vault.open("A", sealed)
        assert caught.value.remedy
        assert kept.decode().strip() not in str(caught.value)
        if content is None:
            with pytest.raises(SecretsLocked, match="not there"):
                vault.seal("B", VALUE, first=False)
            key.touch()
    key.write_bytes(kept)
    assert vault.open("A", sealed) == VALUE, "a key that was put back works at once"


def test_a_systemd_credential_goes_before_the_file(tmp_path: Path) -> None:
    data, credentials = tmp_path / "data", tmp_path / "credentials"
    data.mkdir()
    credentials.mkdir()
    vault = Vault(data, str(credentials))
    of_file = vault.seal("A", VALUE, first=True)
    (credentials / CREDENTIAL).write_bytes(base64.urlsafe_b64encode(bytes(range(220, 252))))
    of_credential = vault.seal("A", VALUE, first=False)
    assert vault.open("A", of_credential) == VALUE
    with pytest.raises(SecretsLocked, match=CREDENTIAL):
        vault.open("A", of_file)


def test_rows_and_events_tell_no_value(connection: Connection) -> None:
    spec = Spec(name="vit", node="box", command="x", secrets=("A", "B"))
    raw = spec.model_dump(mode="json", exclude_unset=True)
    record = runs.create(connection, spec, raw, by="ada", now=NOW, idempotency_key=None)
    secret.put(connection, "A", b"first", "ada", NOW)
    known = secret.put(connection, "A", b"second", "bob", NOW)
    assert (known.set_at, known.set_by, known.runs) == (NOW, "bob", ("vit",))
    assert secret.sealed(connection, ("A", "B")) == {"A": b"second"}
    assert secret.count(connection) == 1
    turn(connection, record, state=RunState.STOPPED)
    assert secret.read(connection)[0].runs == ("vit",), "it may be started again"
    with pytest.raises(NotFound, match="no secret named 'AA'"):
        secret.remove(connection, "AA", "ada", NOW)
    assert secret.remove(connection, "A", "ada", NOW).runs == ("vit",)
    assert secret.read(connection) == []
    told = [
        event for event in events.read(connection, run_id=None, after=0, limit=100) if event.type.startswith("secret.")
    ]
    assert [(event.type, event.data) for event in told] == [
        ("secret.set", {"name": "A", "by": "ada"}),
        ("secret.set", {"name": "A", "by": "bob"}),
        ("secret.removed", {"name": "A", "by": "ada"}),
    ]
