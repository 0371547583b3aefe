"""Nodes and bearer tokens."""

import pytest
from sqlalchemy import select

from supervisor.model.errors import Conflict, NotFound
from supervisor.model.node import NodeSpec, SshAddress
from supervisor.model.run import RunState
from supervisor.store import nodes, tables, tokens
from tests.unit.store.conftest import NOW, create, turn

BOX = NodeSpec(name="box", ssh=SshAddress(host="gpubox"))


def test_a_node_is_added_once_and_found_by_name(connection):
    nodes.add(connection, BOX, "ada", NOW)
    nodes.add(connection, BOX, "ada", NOW)
    assert nodes.read(connection) == [BOX]
    with pytest.raises(Conflict, match="another one"):
        nodes.add(connection, NodeSpec(name="box", ssh=SshAddress(host="elsewhere")), "ada", NOW)
    with pytest.raises(NotFound, match="Did you mean 'box'"):
        nodes.find(connection, "bax")


def test_pinned_keys_are_kept(connection):
    nodes.add(connection, BOX, "ada", NOW)
    assert nodes.pin(connection, "box", ("ssh-ed25519 AAAA",)).host_keys == ("ssh-ed25519 AAAA",)
    assert nodes.find(connection, "box").host_keys == ("ssh-ed25519 AAAA",)


def test_a_node_with_living_runs_stays(connection):
    nodes.add(connection, BOX, "ada", NOW)
    record = create(connection)
    with pytest.raises(Conflict, match="vit"):
        nodes.remove(connection, "box", "ada", NOW)
    turn(connection, record, state=RunState.STOPPED)
    nodes.remove(connection, "box", "ada", NOW)
    assert nodes.read(connection) == []


def test_a_token_is_known_but_not_kept(connection):
    plain = tokens.create(connection, "ci", "operator", NOW)
    rows = [str(value) for row in connection.execute(select(tables.token)) for value in row]
    assert not any(plain in value for value in rows)
    known = tokens.read(connection)
    found = tokens.check(plain, known)
    assert found is not None
    assert (found.name, found.role, found.created_at) == ("ci", "operator", NOW)
    for wrong in ("", plain[:-1], plain + "x", "vigil_", "\ud800"):
        assert tokens.check(wrong, known) is None
    with pytest.raises(Conflict):
        tokens.create(connection, "ci", "viewer", NOW)
    tokens.revoke(connection, "ci")
    assert tokens.check(plain, tokens.read(connection)) is None
    with pytest.raises(NotFound):
        tokens.revoke(connection, "ci")
