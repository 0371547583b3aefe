"""Telling systemd how it stands: READY, WATCHDOG, STOPPING. Without systemd all of it does nothing."""

import os
import socket


def notify(message: str) -> None:
    """Sends `message` (`READY=1`, say) to the socket that systemd named."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    if address.startswith("@"):  # an abstract socket
        address = "\0" + address[1:]
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as channel:
            # Never waits: a full queue (systemd itself is stuck) must not stop the daemon's loop.
            channel.setblocking(False)
            channel.sendto(message.encode(), address)
    except OSError:
        # systemd restarts a daemon that it does not hear; ending here would only be sooner.
        return


def watchdog_interval_s() -> float | None:
    """How often WATCHDOG=1 is to be sent: half of what the unit allows. None: no watchdog for this process."""
    usec = os.environ.get("WATCHDOG_USEC", "")
    if not usec.isdecimal() or os.environ.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return None
    return int(usec) / 2_000_000
