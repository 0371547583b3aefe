"""Points proven bad by any run: what counts as the very same point, and what a person is told. Pure."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence

from supervisor.model.code import Code, changes
from supervisor.model.errors import Conflict
from supervisor.model.proof import Proof
from supervisor.model.spec import ResumeByConfig, ResumeByEnv, Scalar, Spec
from supervisor.remedy.configuration import configuration_of
from supervisor.remedy.ledger import BAD_CAUSES


class ProvenBad(Conflict):
    """This very point was proven bad."""

    code = "proven_bad"


def print_of(
    spec: Spec, overrides: Mapping[str, Scalar], file_text: str | None, devices: Sequence[str], node: str
) -> str | None:
    """The point's fingerprint: what is launched, where the checkpoint lies left out. The code is compared beside it.

    `devices`: the kinds of the devices that it starts on. Without devices the node itself is what it runs on: another
    machine has another memory. None where the configuration's file was not read: then nothing is known of the point.
    InvalidInput where the overrides cannot be had.
    """
    if spec.config is not None and spec.config.file is not None and file_text is None:
        return None
    turned = configuration_of(spec, file_text=file_text, overrides=overrides)
    values = turned.settings()
    if isinstance(spec.resume, ResumeByEnv):
        values.pop(f"env.{spec.resume.env}", None)
    if isinstance(spec.resume, ResumeByConfig):
        values.pop(f"config.{spec.resume.config}", None)
    whole = {
        "command": turned.command,
        "before": [spec.setup, spec.venv, spec.conda],
        "where": [spec.workdir, spec.user],
        "secrets": sorted(spec.secrets),
        "env_file": spec.env_file,
        "values": values,
        # What does not parse is one value: the whole text.
        "text": file_text if turned.document is None else None,
        "on": sorted(devices) or [f"node {node}"],
    }
    return hashlib.sha256(json.dumps(whole, sort_keys=True, default=repr).encode()).hexdigest()


def proves(cause: str) -> bool:
    """Whether an end for this cause proves the point bad: causes of the run's own only."""
    return cause in BAD_CAUSES


def bad(proofs: Iterable[Proof], code: Code) -> Proof | None:
    """The newest of the proofs for a point that speaks of this code too; what is not known of the code counts as the
    same."""
    same = [proof for proof in proofs if not changes(proof.code, code).changed]
    return max(same, key=lambda proof: proof.at, default=None)


def refusal(proof: Proof) -> ProvenBad:
    """What a person is told."""
    return ProvenBad(
        proof.sentence, remedy="Change a setting or the code; or launch it all the same: --anyway (`anyway: true`)."
    )
