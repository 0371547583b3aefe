"""Between rows and nouns: times as whole milliseconds, JSON without NaN."""

from datetime import UTC, datetime, timedelta
from typing import Any

from pydantic import BaseModel
from pydantic_core import from_json, to_json

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


def to_ms(moment: datetime) -> int:
    """Whole milliseconds of unix time."""
    return (moment - _EPOCH) // _MILLISECOND


def from_ms(milliseconds: int) -> datetime:
    """The UTC time of `to_ms`."""
    return _EPOCH + milliseconds * _MILLISECOND


def to_text(value: Any) -> str:
    """JSON; what JSON does not know (NaN, infinity) becomes null."""
    return to_json(value, by_alias=True, inf_nan_mode="null").decode()


def from_text(text: str) -> Any:
    """The value of `to_text`."""
    return from_json(text)


def noun_text(noun: BaseModel | None) -> str | None:
    """A noun as JSON, None as NULL."""
    return None if noun is None else noun.model_dump_json(by_alias=True)
