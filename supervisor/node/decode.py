"""What the probe answers, as nouns of the model."""

from typing import Any, TypeVar

from pydantic import ValidationError

from supervisor.model.errors import NodeUnreachable
from supervisor.model.noun import Noun
from supervisor.model.observation import Observation, Slice
from supervisor.probe.wire import Frame

NounT = TypeVar("NounT", bound=Noun)


def observation(frame: Frame) -> Observation:
    """An observation; the frame's raw part holds the log's bytes, then the metrics file's."""
    result = dict(frame.header["result"])
    raw = memoryview(frame.raw)
    for name in ("log", "metrics"):
        piece = result.get(name)
        if piece is None:
            continue
        piece = dict(piece)
        size = int(piece.pop("size", 0))
        if size > len(raw):
            raise NodeUnreachable(f"The probe announced {size} bytes of {name} and sent {len(raw)}.")
        piece["data"] = bytes(raw[:size])
        raw = raw[size:]
        result[name] = piece
    return noun(Observation, result)


def piece(frame: Frame) -> Slice:
    """A slice of a file."""
    result = frame.header["result"]
    return Slice(offset=int(result["offset"]), data=frame.raw, end=int(result["end"]))


def noun(kind: type[NounT], data: Any) -> NounT:
    """`data` as that noun. Keys that a newer probe added are left out; anything else that is wrong is a broken link."""
    try:
        return kind.model_validate(data)
    except ValidationError as error:
        extra = [fault["loc"] for fault in error.errors() if fault["type"] == "extra_forbidden"]
        if len(extra) < error.error_count():
            raise NodeUnreachable(f"The probe's answer is no {kind.__name__}: {error.errors()[0]}") from error
    for place in extra:
        data = _without(data, place)
    return kind.model_validate(data)


def _without(data: Any, place: tuple[int | str, ...]) -> Any:
    """A copy without that key."""
    head, *rest = place
    if isinstance(data, dict):
        if not rest:
            return {key: value for key, value in data.items() if key != head}
        return {key: _without(value, tuple(rest)) if key == head else value for key, value in data.items()}
    return [_without(value, tuple(rest)) if number == head else value for number, value in enumerate(data)]
