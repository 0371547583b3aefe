"""What all links of one daemon share: keys, known hosts, deadlines."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from supervisor.node.bundle import Bundle, bundle


def _utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, kw_only=True, eq=False)
class LinkOptions:
    """Made once per daemon: links that are given the same object share SSH connections."""

    data_folder: Path
    """The daemon's own client key lies in `ssh/id_ed25519` below it; it is made when first needed."""
    ssh_config: Path | None = None
    """An OpenSSH client configuration to honour (host names, ports, users, jump hosts, keys); None: none."""
    known_hosts: Path | None = None
    """Beside the files that `ssh_config` names; with neither, `~/.ssh/known_hosts` and `/etc/ssh/ssh_known_hosts`."""
    client_keys: Sequence[Path] = field(default_factory=list)
    """Private keys that are offered after the daemon's own. An encrypted one is left out: nobody could type."""
    personal_keys: bool = True
    """Offer what the user's own `ssh` would offer too: the agent's keys and `~/.ssh/id_*`."""
    clock: Callable[[], datetime] = _utc_now
    """Gives `last_seen`."""
    connect_s: float = 15.0
    """Deadline of the SSH connection, login included, and again of the container's and the probe's start: a cold
    `pct exec` on a busy Proxmox host takes seconds."""
    ping_s: float = 20.0
    """After so long without a word from the probe it is asked; it would end itself after 120 s without a request."""
    shortest_retry_s: float = 1.0
    longest_retry_s: float = 60.0
    refused_retry_s: float = 300.0
    """After a refused login: more attempts would make sshd block this machine (PerSourcePenalties)."""
    probe: Callable[[], Bundle] = bundle
    """What is sent to the nodes."""
    connects_at_once: int = 8
    """Below sshd's MaxStartups of 10."""
    shared: dict[type, Any] = field(default_factory=dict, init=False, repr=False)
    """What the links that are given this object share."""
