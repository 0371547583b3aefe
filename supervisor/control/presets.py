"""The presets that a person added: TOML files in the data folder, read anew whenever a spec names a preset."""

from pathlib import Path

from supervisor.model.errors import InvalidInput
from supervisor.model.preset import Preset
from supervisor.remedy.presets import SUFFIX, read_preset

MAX_BYTES = 256 * 1024


def own_presets(data_folder: Path, name: str | None) -> dict[str, Preset]:
    """The person's preset of that name, and under their names those beside it that can be read.

    InvalidInput names the file and the key where `name` itself is faulty; a faulty one that nobody asked for harms
    nobody.
    """
    found: dict[str, Preset] = {}
    folder = data_folder / "presets"
    for file in sorted(folder.glob(f"*{SUFFIX}")) if name is not None else ():
        own = file.name.removesuffix(SUFFIX)
        try:
            found[own] = _read(file)
        except InvalidInput:
            if own == name:
                raise
    return found


def _read(file: Path) -> Preset:
    try:
        if file.stat().st_size > MAX_BYTES:
            raise InvalidInput(f"{file} is larger than {MAX_BYTES} bytes.", remedy="A preset is a page, no data file.")
        text = file.read_text("utf-8")
    except OSError as error:
        raise InvalidInput(f"{file} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{file} is not UTF-8: byte {error.start}.") from error
    return read_preset(text, str(file))
