"""A person's own signatures in a file: `signatures.yaml`, `.toml` or `.json` in the daemon's data folder."""

from pathlib import Path

from supervisor.model.errors import InvalidInput
from supervisor.model.reading import TextFormat, parse, read_mapping
from supervisor.model.signature import OwnSignature, OwnSignatures

NAMES = ("signatures.yaml", "signatures.toml", "signatures.json")
_FORMATS: dict[str, TextFormat] = {".toml": "toml", ".json": "json"}


def signatures_of_folder(folder: Path) -> tuple[OwnSignature, ...]:
    """Those of the data folder; none where it holds no such file; InvalidInput names file, place and what is wrong."""
    found = [folder / name for name in NAMES if (folder / name).is_file()]
    if len(found) > 1:
        names = " and ".join(path.name for path in found)
        raise InvalidInput(f"{folder} holds {names}.", remedy="Keep one of them.")
    return signatures_of_file(found[0]) if found else ()


def signatures_of_file(path: Path) -> tuple[OwnSignature, ...]:
    """The file's signatures, tested against their own examples; InvalidInput names the place and what is wrong."""
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{path} cannot be read: {error}.") from error
    data = read_mapping(text, _FORMATS.get(path.suffix.lower(), "yaml"), source=str(path))
    return parse(OwnSignatures, data, source=str(path)).signatures
