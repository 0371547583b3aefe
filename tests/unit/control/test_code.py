"""The text of an attempt's difference is fetched once, and not asked for for ever where there is none."""

import asyncio
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, cast

import pytest

from supervisor.control.code import WRITTEN_WITHIN_S, Texts
from supervisor.control.facts import Facts
from supervisor.control.written import with_facts
from supervisor.model.code import Code
from supervisor.model.errors import NodeUnreachable, NotFound, VigilError
from supervisor.model.observation import Slice
from supervisor.store.records import AttemptRecord
from tests.unit.control.test_check import NOW, record


class Node:
    """A link that answers one file, or an error."""

    def __init__(self, answer: bytes | VigilError) -> None:
        self.answer = answer
        self.asked = 0

    async def read(self, path: str, offset: int, size: int, *, base: str | None = None) -> Slice:
        self.asked += 1
        if isinstance(self.answer, VigilError):
            raise self.answer
        return Slice(offset=offset, data=self.answer[offset:], end=len(self.answer))


class Kept:
    """A store of texts."""

    def __init__(self) -> None:
        self.text: str | None = None

    async def code_text(self, run_id: str, attempt_no: int) -> str | None:
        return self.text

    async def keep_code_text(self, run_id: str, attempt_no: int, text: str) -> None:
        self.text = text


def begun() -> AttemptRecord:
    row = record().records[1]
    attempt = row.attempt.model_copy(update={"code": Code(head="a" * 40, dirty="d"), "started_at": NOW})
    return with_facts(replace(row, attempt=attempt), Facts(folder="/home/a/1"))


async def looked(node: Node, kept: Kept, *moments: datetime) -> None:
    texts = Texts(cast("Any", kept), cast("Any", node))
    for now in moments:
        texts.look("1", begun(), now)
        others = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.gather(*cast("Any", others))


SOON, LATE = NOW + timedelta(seconds=5), NOW + timedelta(seconds=WRITTEN_WITHIN_S + 5)


async def test_it_is_fetched_once() -> None:
    node, kept = Node(b"-a\n+b\n"), Kept()
    await looked(node, kept, SOON, SOON, LATE)
    assert kept.text == "-a\n+b\n"
    assert node.asked == 1


async def test_what_is_not_written_yet_is_asked_for_again_and_what_never_comes_no_more() -> None:
    node, kept = Node(NotFound("no code.diff")), Kept()
    await looked(node, kept, SOON, SOON, LATE, LATE, LATE)
    assert node.asked == 3
    assert kept.text is None


@pytest.mark.parametrize("now", [SOON, LATE])
async def test_out_of_sight_is_asked_for_again(now: datetime) -> None:
    node = Node(NodeUnreachable("gone"))
    await looked(node, Kept(), now, now)
    assert node.asked == 2
