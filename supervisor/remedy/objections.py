"""What speaks against a launch: a second corrector inside the run, or more nodes than one. Refused, with the reason."""

import re
from collections.abc import Iterator
from typing import Any

from supervisor.model.errors import Fault, InvalidInput
from supervisor.model.spec import Spec
from supervisor.remedy.settings import Configuration
from supervisor.remedy.shellwords import words

TWO_CORRECTORS = (
    "would start the program again by itself: two correctors would fight, and attempts would be counted by neither"
)
BATCH_FINDER = (
    "changes the batch size inside the run after every out-of-memory: two correctors would fight, and the global "
    "batch would not be kept"
)
SEVERAL_NODES = "spreads the run over several nodes, which is not supported yet"
_RESTARTS = frozenset({"max_restarts", "pet_max_restarts"})
_NODES = frozenset({"nnodes", "pet_nnodes", "num_machines", "num_nodes"})
_FINDER = "auto_find_batch_size"
_SHELLS = re.compile(r"(?:.*/)?(?:ba|da|z|k)?sh")
_NO = frozenset({"false", "no", "off", "0", "none", "null", ""})


def object_to(spec: Spec, configuration: Configuration) -> None:
    """InvalidInput, with one fault per place, where the run as configured must not be launched.

    Looked at: the command with what a `bash -c` in it holds, `setup`, `env`, and the configuration's text. What a
    program decides in its own code is not seen.
    """
    faults = [fault for place, name, value in _settings(spec, configuration) if (fault := _fault(place, name, value))]
    if faults:
        raise InvalidInput(f"{spec.name} cannot be supervised as it is.", faults=faults)


def _settings(spec: Spec, configuration: Configuration) -> Iterator[tuple[str, str, Any]]:
    """Place, name (with `_`, lower case) and value of everything that might be one of them. A value of None is none."""
    command = configuration.command
    texts = [command] if isinstance(command, str) else []
    lines = [_words(text) for text in [*texts, spec.setup or ""]]
    lines += [] if isinstance(command, str) else [list(command)]
    for line in lines:
        for name, value in _named(line):
            yield "command", name, value
    for variable, text in configuration.env.items():
        yield f"env.{variable}", variable.lower(), text
    if configuration.document is not None:
        yield from _keys(configuration.document.values, "config")


def _words(line: str) -> list[str]:
    try:
        return ["" if word.operator else word.text for word in words(line)]
    except ValueError:
        return line.split()


def _named(line: list[str]) -> Iterator[tuple[str, Any]]:
    for index, text in enumerate(line):
        match = re.fullmatch(r"(?:--?|\+{0,2})([A-Za-z][\w.-]*)(?:=(.*))?", text, re.DOTALL)
        following = line[index + 1] if index + 1 < len(line) else ""
        if match is not None and (text.startswith("-") or match[2] is not None):
            name = match[1].rsplit(".", 1)[-1].replace("-", "_").lower()
            is_value = bool(following) and not following.startswith("-")
            yield name, match[2] if match[2] is not None else following if is_value else None
        if text in {"-c", "-lc", "-ec", "-ic"} and index and _SHELLS.fullmatch(line[index - 1]):
            yield from _named(_words(following))


def _keys(node: Any, place: str) -> Iterator[tuple[str, str, Any]]:
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, item in items:
        if isinstance(item, dict | list):
            yield from _keys(item, f"{place}.{key}")
        else:
            yield f"{place}.{key}", str(key).replace("-", "_").lower(), item


def _fault(place: str, name: str, value: Any) -> Fault | None:
    shown = name if value is None else f"{name} {value}"
    if name in _RESTARTS and _above(value, 0):
        remedy = "leave it out: Vigil restarts the run, from its checkpoint"
        return Fault(place=place, value=shown, detail=TWO_CORRECTORS, remedy=remedy)
    if name in _NODES and _above(value, 1):
        remedy = "run on one node: --nnodes 1, or --standalone"
        return Fault(place=place, value=shown, detail=SEVERAL_NODES, remedy=remedy)
    if name == _FINDER and str(True if value is None else value).lower() not in _NO:
        remedy = "leave it out: preset hf-trainer halves the batch and doubles the accumulation"
        return Fault(place=place, value=shown, detail=BATCH_FINDER, remedy=remedy)
    return None


def _above(value: Any, bound: int) -> bool:
    """More than `bound`; of a range such as `1:4` the upper end counts, and what cannot be read is too much."""
    text = str("" if value is None else value).rsplit(":", 1)[-1].strip()
    return int(text) > bound if re.fullmatch(r"-?\d{1,9}", text) else value is not None and not text.startswith("{")
