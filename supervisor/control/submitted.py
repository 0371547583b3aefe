"""A spec as it is handed in: read, its preset filled in, and what must not be launched refused."""

import contextlib
from pathlib import Path

from supervisor.control import act
from supervisor.control.presets import own_presets
from supervisor.model.errors import CallRefused, InvalidInput, NodeUnreachable, NotFound
from supervisor.model.spec import Spec
from supervisor.node.link import Link
from supervisor.remedy.objections import object_to
from supervisor.remedy.presets import with_preset
from supervisor.remedy.settings import Configuration


async def submitted(spec: Spec, link: Link, data_folder: Path, *, must_read: bool) -> tuple[Spec, str | None]:
    """`spec` with its preset filled in, and the text of its configuration file as far as it can be read now.

    InvalidInput for what must not be launched, and where the preset needs to be told something. `must_read`: what
    keeps the text from being read is an error; else the launch will say it.
    """
    text = None
    with contextlib.suppress(*(() if must_read else (NodeUnreachable, CallRefused, NotFound, InvalidInput))):
        text = await act.configuration_text(link, spec)
    filled = with_preset(spec, file_text=text, own=own_presets(data_folder, spec.preset))
    object_to(filled, Configuration.of(filled, text))
    return filled, text
