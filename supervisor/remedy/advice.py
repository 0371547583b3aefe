"""Knobs that would help, as YAML to paste: what a person is given where no live knob answers the cause."""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from supervisor.model.causes import cause
from supervisor.model.errors import InvalidInput
from supervisor.model.spec import Spec
from supervisor.remedy.knobs import KnobState
from supervisor.remedy.settings import Configuration
from supervisor.remedy.shellwords import words

MAX_LINES = 12


class _Wish(NamedTuple):
    """Settings whose name matches are worth a knob."""

    name: re.Pattern[str]
    turn: str


_SMALLER_BATCH = _Wish(
    re.compile(r"(?:^|[._-])(?:micro_?)?batch|(?:_|-)bs$|batch.*tokens", re.IGNORECASE), "step: halve, min: 1"
)
_SMALLER_PIECES = _Wish(re.compile(r"chunk|prefetch|(?:^|[._-])queue", re.IGNORECASE), "step: halve, min: 1")
_SHORTER = _Wish(
    re.compile(r"max_?len|seq_?len|context_?len", re.IGNORECASE), "step: halve, min: 128, changes_training: true"
)
_FEWER_WORKERS = _Wish(re.compile(r"workers|num_proc|threads", re.IGNORECASE), "step: halve, min: 0")
_SMALLER_RATE = _Wish(
    re.compile(r"(?:^|[._-])(?:lr|learning_?rate)$", re.IGNORECASE), "step: halve, min: 1e-7, changes_training: true"
)
_OTHER_PORT = _Wish(re.compile(r"port$", re.IGNORECASE), "add: 1, max: 65535")

_BY_FAMILY: dict[str, tuple[_Wish, ...]] = {
    "gpu_memory": (_SMALLER_PIECES, _SMALLER_BATCH, _SHORTER),
    "host_memory": (_FEWER_WORKERS, _SMALLER_PIECES, _SMALLER_BATCH),
    "numerics": (_SMALLER_RATE,),
    "distributed": (_OTHER_PORT,),
}
_FIXED: dict[str, tuple[str, ...]] = {
    "gpu_oom_fragmented": ('{key: env.PYTORCH_CUDA_ALLOC_CONF, set: "expandable_segments:True", %s}',),
    "gpu_oom": ('{key: env.PYTORCH_CUDA_ALLOC_CONF, set: "expandable_segments:True", %s}',),
    "memory_churn": ('{key: env.PYTORCH_CUDA_ALLOC_CONF, set: "expandable_segments:True", %s}',),
    "port_in_use": ("{key: env.MASTER_PORT, add: 1, max: 65535, %s}",),
}
_ACCUMULATION = re.compile(r"accum", re.IGNORECASE)


def advice(spec: Spec, configuration: Configuration, cause_id: str, ladder: Sequence[KnobState]) -> str:
    """YAML that a person may paste into the spec, after a word on each declared knob that could not be turned."""
    row = cause(cause_id)
    relieves = f"relieves: [{cause_id}]"
    comments = [
        f"# {state.knob.key} {state.why}"
        for state in ladder
        if not state.live and {cause_id, row.family} & set(state.knob.relieves)
    ]
    declared = {state.knob.key for state in ladder}
    numbers = {key: value for key, value in _numbers(spec, configuration) if key not in declared}
    rows: list[str] = []
    for wish in _BY_FAMILY.get(row.family, ()):
        for key, value in numbers.items():
            name = key.split(".", 1)[1].lstrip("-")
            if wish.name.search(name) and not _ACCUMULATION.search(name) and (value > 1 or wish is _SMALLER_RATE):
                rows.append(f"{{key: {key}, {wish.turn}{_partner(wish, key, numbers)}, {relieves}}}")
    rows += [text % relieves for text in _FIXED.get(cause_id, ()) if text.split(",")[0].split()[-1] not in declared]
    if not rows:
        comments.append(f"# no setting of this run is known to relieve {cause_id}; declare one that does:")
        rows.append(f"{{key: config.PATH, step: halve, min: 1, {relieves}}}")
    unique = list(dict.fromkeys(rows))[:MAX_LINES]
    return "\n".join([*comments[:MAX_LINES], "knobs:", *(f"  - {row}" for row in unique)]) + "\n"


def _numbers(spec: Spec, configuration: Configuration) -> Iterable[tuple[str, int | float]]:
    """Every number that a knob could name, with its key."""
    if configuration.document is not None and spec.config_is_used:
        for key, value in configuration.settings().items():
            if key.startswith("config.") and isinstance(value, int | float) and not isinstance(value, bool):
                yield key, value
    flags = configuration.command
    try:
        texts = [word.text for word in words(flags)] if isinstance(flags, str) else list(flags)
    except ValueError:
        return
    for flag in dict.fromkeys(text.split("=", 1)[0] for text in texts if re.match(r"--?[A-Za-z]", text)):
        key = f"args.{flag}"
        try:
            value = configuration.value(key)
        except InvalidInput:  # a flag that cannot be read is simply no proposal
            continue
        if isinstance(value, int | float) and not isinstance(value, bool):
            yield key, value


def _partner(wish: _Wish, key: str, numbers: dict[str, int | float]) -> str:
    """`with` and `keep`, where the batch has an accumulation beside it: the global batch stays what it was."""
    if wish is not _SMALLER_BATCH or not isinstance(numbers[key], int):
        return ""
    partner = next((each for each, value in numbers.items() if _ACCUMULATION.search(each) and value >= 1), None)
    return f', with: {partner}, keep: "{key} * {partner}"' if partner else ""
