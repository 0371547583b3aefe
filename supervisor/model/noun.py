"""What all nouns share: frozen, strict about unknown fields, times in UTC."""

from datetime import UTC, datetime
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, PlainSerializer


def _as_utc(moment: datetime) -> datetime:
    if moment.tzinfo is None:
        raise ValueError("a time needs its zone")
    try:
        return moment.astimezone(UTC)
    except OverflowError as error:
        raise ValueError("lies outside of the calendar") from error


def rfc3339(moment: datetime) -> str:
    """`moment` as RFC 3339 in UTC with milliseconds and a `Z`."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def from_unix(seconds: float) -> datetime:
    """The UTC time of a node's or a file's unix clock."""
    return datetime.fromtimestamp(seconds, UTC)


Moment = Annotated[datetime, AfterValidator(_as_utc), PlainSerializer(rfc3339, when_used="json")]
"""A point in time: aware, kept in UTC, written as RFC 3339 with `Z`."""


class Noun(BaseModel):
    """A frozen value. An unknown field is an error: a typo must not pass silently."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)
