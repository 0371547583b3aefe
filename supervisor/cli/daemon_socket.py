"""The daemon's listening socket."""

import errno
import socket

from supervisor.model.errors import Conflict, InvalidInput
from supervisor.model.settings import Settings

_BACKLOG = 128


def listen(settings: Settings) -> socket.socket:
    """The listening socket, before anything else is begun."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        return socket.create_server((settings.host, settings.port), family=family, backlog=_BACKLOG)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise Conflict(
                f"Port {settings.port} of {settings.host} is taken.", remedy="Is a daemon running? Else use --listen."
            ) from error
        raise InvalidInput(f"{settings.listen} cannot be listened on: {error.strerror or error}.") from error


def url_of(settings: Settings, listening: socket.socket) -> str:
    """Where the daemon really listens: port 0 asks the kernel for a free one."""
    port = int(listening.getsockname()[1])
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    return settings.model_copy(update={"listen": f"{host}:{port}", "public_url": None}).url
