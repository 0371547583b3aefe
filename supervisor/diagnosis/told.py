"""Settings that the program itself tells in its log: the proof that a turned value has arrived."""

import re

from supervisor.diagnosis.state import State

GLOBAL_BATCH = "total_train_batch_size"
TOLD_WORDS = ("atch size per device = ", "ccumulation steps = ", "Total train batch size")
"""One of them stands in every line that tells a setting: what has none need not be looked at."""
_TOLD = {
    "per_device_train_batch_size": re.compile(r"Instantaneous batch size per device = (?P<value>\d[\d,]{0,15})"),
    "gradient_accumulation_steps": re.compile(r"Gradient Accumulation steps = (?P<value>\d[\d,]{0,15})"),
    GLOBAL_BATCH: re.compile(r"Total train batch size \([^)]{0,80}\) = (?P<value>\d[\d,]{0,15})"),
}
"""What transformers' Trainer prints at verbosity `info`, by the setting's name."""


def note_told(state: State, text: str) -> None:
    """Remember a setting that the line tells; the first word counts."""
    if " = " not in text:
        return
    for name, pattern in _TOLD.items():
        match = pattern.search(text)
        if match is not None:
            state.told.setdefault(name, float(match["value"].replace(",", "")))
