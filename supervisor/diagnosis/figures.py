"""The numbers in a message: how much was asked, free, allowed, allocated, reserved."""

import re

_UNITS = {"": 1, "B": 1, "BYTES": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_AMOUNT = r"(?<![\d.,])(?P<amount>\d[\d.,]{0,24}) ?(?P<unit>bytes|[KMGT]i?B?|B)?\b"
_OOM: dict[str, tuple[re.Pattern[str], ...]] = {
    name: tuple(re.compile(pattern.replace("U", _AMOUNT, 1)) for pattern in patterns)
    for name, patterns in {
        "asked_bytes": (
            r"[Tt]ried to allocate U",
            r"trying to allocate U",
            r"[Rr]equested memory: U",
            r"allocating U",
            r"CUDA (?:calloc|malloc)(?: async)? U",
            r"Unable to allocate U",
            r"allocate request.{0,20}? U",
            r"malloc of size U",
        ),
        "total_bytes": (r"total capaci?ty of U", r"U total capacity"),
        "free_bytes": (r"of which U is free", r"; U free", r"[Ff]ree memory: U", r"There are U free"),
        "allocated_bytes": (r"U is allocated by PyTorch", r"U already allocated", r"MPS allocated: U"),
        "reserved_bytes": (r"U reserved in total",),
        "cached_bytes": (r"U cached",),
        "unallocated_bytes": (r"U is reserved by PyTorch but unallocated",),
        "allowed_bytes": (r"max allowed: U", r"U allowed"),
        "own_bytes": (r"this process has U memory in use",),
        "pool_bytes": (r"with U allocated in private pools",),
    }.items()
}
_OTHERS = re.compile(r"Process (?P<pid>\d{1,9}) has " + _AMOUNT + " memory in use")
_PREFLIGHT = re.compile(
    r"\((?P<free>[\d.]{1,12})/(?P<total>[\d.]{1,12}) GiB\) on startup.{0,80}utilization"
    r" \((?P<share>[\d.]{1,12}), (?P<wanted>[\d.]{1,12}) GiB\)"
)
_COMPILE = re.compile(
    r"Used (?P<used>[\d.]{1,12})(?P<used_unit>[KMGT]) of (?P<limit>[\d.]{1,12})(?P<limit_unit>[KMGT])"
)
_BARRIER = re.compile(r"world_size=(?P<world>\d{1,9}), worker_count=(?P<workers>\d{1,9})")
_SCALE = re.compile(
    r"(?:loss scale: ?(?P<before>[\d.e+-]{1,20}), reducing to ?(?P<after>[\d.e+-]{1,20})"
    r"|(?:loss scale to|scale to:) ?(?P<alone>[\d.]{1,20}(?:e[+-]?\d{1,3})?))"
)


def figures_of(kind: str | None, text: str) -> dict[str, float]:
    """The figures of a matched line; `kind` is the signature's `figures`."""
    match kind:
        case "oom" | "host":
            return oom_figures(text)
        case "preflight":
            return _preflight(text)
        case "compile":
            return _compile(text) | oom_figures(text)
        case "barrier":
            found = _BARRIER.search(text)
            return {"world_size": float(found["world"]), "worker_count": float(found["workers"])} if found else {}
        case "scale":
            return _scale(text)
    return {}


def oom_figures(text: str) -> dict[str, float]:
    """Every figure of an out-of-memory message of any generation, in bytes; absent where the message lacks it."""
    figures: dict[str, float] = {}
    for name, patterns in _OOM.items():
        for pattern in patterns:
            match = pattern.search(text)
            value = _bytes(match) if match else None
            if value is not None:
                figures[name] = value
                break
    others = [(float(match["pid"]), _bytes(match) or 0.0) for match in _OTHERS.finditer(text)]
    own = _own_row(figures, [amount for _, amount in others])
    if own is not None:
        figures["own_bytes"] = others.pop(own)[1]
    if others:
        figures["others_bytes"] = sum(amount for _, amount in others)
        figures["others_largest_bytes"] = max(amount for _, amount in others)
        figures["others_largest_pid"] = max(others, key=lambda row: row[1])[0]
        figures["others_count"] = float(len(others))
    return figures


def _own_row(figures: dict[str, float], amounts: list[float]) -> int | None:
    """Which of the processes named in the message is the one that asks. In a container the driver knows it by the
    host's number, and it is listed like a stranger: then all rows and its own share are more than is in use."""
    total, free, allocated = (figures.get(name) for name in ("total_bytes", "free_bytes", "allocated_bytes"))
    if "own_bytes" in figures or total is None or free is None or allocated is None:
        return None
    share = allocated + figures.get("unallocated_bytes", 0.0)
    if sum(amounts) + share <= 1.01 * (total - free):
        return None
    fitting = [row for row, amount in enumerate(amounts) if amount >= 0.99 * share]
    return min(fitting, key=lambda row: amounts[row]) if fitting else None


def in_words(amount_bytes: float) -> str:
    """A number of bytes for people: 1.55 GiB."""
    for unit, size in (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if abs(amount_bytes) >= size:
            return f"{amount_bytes / size:.2f} {unit}"
    return f"{amount_bytes:.0f} bytes"


def _bytes(match: re.Match[str]) -> float | None:
    text = match["amount"].rstrip(".,").replace(",", "")
    unit = (match["unit"] or "").upper()
    size = _UNITS.get(unit if unit in _UNITS else unit[:1], 1)
    try:
        return float(text) * size
    except ValueError:
        return None


def _preflight(text: str) -> dict[str, float]:
    match = _PREFLIGHT.search(text)
    if match is None:
        return {}
    gib = float(1 << 30)
    free, total, wanted = (float(match[name]) * gib for name in ("free", "total", "wanted"))
    return {
        "free_bytes": free,
        "total_bytes": total,
        "asked_bytes": wanted,
        "missing_bytes": max(0.0, wanted - free),
        "held_bytes": max(0.0, total - free),
    }


def _compile(text: str) -> dict[str, float]:
    match = _COMPILE.search(text)
    if match is None:
        return {}
    used = float(match["used"]) * _UNITS[match["used_unit"]]
    limit = float(match["limit"]) * _UNITS[match["limit_unit"]]
    return {"asked_bytes": used, "total_bytes": limit, "ratio": used / limit if limit else 0.0}


def _scale(text: str) -> dict[str, float]:
    match = _SCALE.search(text)
    if match is None:
        return {}
    try:
        after = float((match["after"] or match["alone"]).rstrip("."))
        before = float(match["before"]) if match["before"] else after * 2
    except ValueError:
        return {}
    return {"scale_before": before, "scale_after": after}
