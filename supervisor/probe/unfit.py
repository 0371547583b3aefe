"""What an attempt needs is not there."""


class Unfit(Exception):  # noqa: N818 - says what it is
    """The attempt cannot begin. The text names the place, the value and what to do."""
