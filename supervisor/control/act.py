"""Effects: what a decision asks of the node. Building the calls is here, when to make them is the watch's."""

import asyncio
from datetime import datetime
from typing import NamedTuple

from supervisor.control.facts import Facts
from supervisor.control.secret import NOTHING, Parcel
from supervisor.model.code import Code
from supervisor.model.errors import InvalidInput
from supervisor.model.node import NodeFacts
from supervisor.model.noun import from_unix
from supervisor.model.run import Attempt
from supervisor.model.spec import Spec
from supervisor.node.decode import noun
from supervisor.node.link import Link
from supervisor.probe.wire import COLUMNS, ROWS, AdoptArgs, CheckpointPlan, LaunchArgs, LaunchReply, StopArgs, StopReply
from supervisor.remedy.configuration import Resolved, resolve
from supervisor.store.records import RunRecord

MAX_CONFIG_BYTES = 1024 * 1024


class Given(NamedTuple):
    """What an attempt is given by its node."""

    versions: dict[str, str | None] = {}
    """The driver's; empty where it did not tell."""
    devices: tuple[str, ...] = ()
    """The kinds of its GPUs."""


async def configuration_text(link: Link, spec: Spec) -> str | None:
    """The text of the spec's configuration file on the node; None where the spec names none, or it is not UTF-8.

    NotFound or InvalidInput of the probe where it cannot be read; NodeUnreachable where nobody can say.
    """
    if spec.config is None or spec.config.file is None:
        return None
    found = await link.read(spec.config.file, 0, MAX_CONFIG_BYTES, base=spec.workdir)
    try:
        return found.data.decode("utf-8")
    except UnicodeDecodeError:
        return None  # The program may well read it; it is used as it is, and no knob can turn it.


async def launch(
    link: Link, record: RunRecord, attempt: Attempt, facts: Facts, parcel: Parcel = NOTHING
) -> tuple[LaunchReply, Resolved]:
    """Starts the attempt, once however often it is asked: the node's fence answers `already`.

    The token goes first, so that no older owner can start or stop anything from here on. InvalidInput where the spec
    names devices that the node does not have. A parcel that lacks a secret gives the launch up, for good: unless it has
    begun already, the node's tombstone makes sure that it never does.
    """
    spec = record.spec
    resolved = await asyncio.to_thread(
        resolve,
        spec,
        attempt.overrides,
        file_text=await configuration_text(link, spec),
        checkpoint=facts.resumed_path,
        attempt_no=attempt.no,
    )
    await link.claim(record.run.id, record.token)
    if attempt.adopted is not None:
        return await link.adopt(adopt_args(record.run.id, record.token, spec, attempt)), resolved
    gpus = list(record.run.claims) or await visible_gpus(link, spec)
    args = launch_args(record.run.id, record.token, spec, attempt.no, resolved, gpus)
    args["code_since"] = facts.code_since
    args["parcel_bytes"], args["give_up"] = len(parcel.data), parcel.lacking
    return await link.launch(args, (resolved.config_text or b"") + parcel.data), resolved


def launch_args(
    run_id: str, token: int, spec: Spec, attempt_no: int, resolved: Resolved, gpus: list[str] | None
) -> LaunchArgs:
    """All that the node needs to start and later observe this attempt."""
    plan = spec.checkpoint
    return LaunchArgs(
        run=run_id,
        attempt=attempt_no,
        token=token,
        command=resolved.command if isinstance(resolved.command, str) else list(resolved.command),
        setup=spec.setup,
        venv=spec.venv,
        conda=spec.conda,
        workdir=spec.workdir,
        env=dict(resolved.env),
        unset=list(resolved.unset),
        config_path=resolved.config_path,
        config_name=resolved.config_name,
        config_beside=resolved.config_beside,
        metrics=spec.metrics,
        checkpoint=CheckpointPlan(path=plan.path, step=plan.step, complete=plan.complete) if plan else None,
        code_since=None,
        gpus=gpus,
        secrets=list(spec.secrets),
        env_file=spec.env_file,
        columns=COLUMNS,
        rows=ROWS,
    )


def adopt_args(run_id: str, token: int, spec: Spec, attempt: Attempt) -> AdoptArgs:
    """All that the node needs to watch this attempt, which a person started."""
    assert attempt.adopted is not None
    plan = spec.checkpoint
    return AdoptArgs(
        run=run_id,
        attempt=attempt.no,
        token=token,
        adopted=attempt.adopted.model_dump(mode="json", exclude={"accepted"}),
        command=spec.command if isinstance(spec.command, str) else list(spec.command),
        workdir=spec.workdir,
        metrics=spec.metrics,
        checkpoint=CheckpointPlan(path=plan.path, step=plan.step, complete=plan.complete) if plan else None,
    )


async def stop(link: Link, run_id: str, token: int, attempt_no: int, spec: Spec, why: str) -> StopReply:
    """Ends what is provably the attempt's: the polite signal, then TERM, then KILL."""
    await link.claim(run_id, token)
    return await link.stop(
        StopArgs(
            run=run_id,
            attempt=attempt_no,
            token=token,
            signal=spec.stop.signal,
            grace_s=spec.stop.grace_s,
            save_grace_s=spec.stop.save_grace_s,
            why=why,
        )
    )


def launched(
    attempt: Attempt, facts: Facts, reply: LaunchReply, resolved: Resolved, given_: Given, now: datetime
) -> Attempt:
    """The attempt as the node confirmed it."""
    return attempt.model_copy(
        update={
            "state": "running",
            "started_at": from_unix(reply["started_unix_s"]) if attempt.adopted and reply["started_unix_s"] else now,
            "code": noun(Code, reply["code"]),
            "versions": given_.versions,
            "devices": given_.devices,
            "config": resolved.values,
            "env": dict(resolved.env),
            "command": resolved.command,
            "resumed_from": attempt.resumed_from if facts.resumed_path else None,
        }
    )


def given(link: Link, spec: Spec, claims: tuple[str, ...] = ()) -> Given:
    """What the node said of itself when the attempt was launched; `claims` as for the launch."""
    facts = link.facts
    if facts is None:
        return Given()
    driver = facts.versions.get("driver")
    chosen = [gpu for gpu in facts.gpus if gpu.uuid in claims] if claims else facts.chosen(spec.gpus)
    return Given({"driver": driver} if driver else {}, tuple(gpu.name for gpu in chosen))


async def visible_gpus(link: Link, spec: Spec) -> list[str] | None:
    """UUIDs for CUDA_VISIBLE_DEVICES; None leaves the variable alone: the node has no devices, or never told."""
    known = _by_index(link.facts)
    if not known if spec.gpus == "all" else not set(spec.gpus) <= set(known):
        # The driver may not have answered when the link came up.
        known = _by_index(await link.hello())
    if spec.gpus == "all":
        return [known[index] for index in sorted(known)] or None
    missing = [str(index) for index in spec.gpus if index not in known]
    if missing:
        raise InvalidInput(
            f"{spec.node} has no GPU {', '.join(missing)}; it has {sorted(known) or 'none'}.",
            remedy="Change `gpus` in the spec.",
        )
    return [known[index] for index in spec.gpus]


def _by_index(facts: NodeFacts | None) -> dict[int, str]:
    return {gpu.index: gpu.uuid for gpu in facts.gpus} if facts else {}
