"""Run as a program: sends what is in the outbox of a folder to an address until it is killed."""

import asyncio
import sys
from datetime import UTC, datetime
from pathlib import Path

from supervisor.alerts.outbox import Outbox
from supervisor.alerts.route import WebhookRoute
from supervisor.model.incident import Message
from supervisor.store.store import Store


async def main(folder: Path, url: str, secret: str, count: int) -> None:
    """Puts `count` messages into the outbox, then sends."""
    store = await Store.open(folder)
    outbox = Outbox(store, [WebhookRoute(url=url, secret=secret)], factor=1e-5)
    await outbox.start()
    for number in range(count):
        await store.enqueue([Message(type="run.finished", timestamp=datetime.now(UTC), data={"n": number})])
    sys.stdout.write("enqueued\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4])))
