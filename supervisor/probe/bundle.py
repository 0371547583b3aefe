"""How the probe starts more of itself: wrapper, viewer and workers come from the same bundle, with the same Python."""

import os
import sys

_BOOT = (
    "import sys; sys.path[:0] = sys.argv[1].split({sep!r}); "
    "from supervisor.probe import {module} as m; sys.exit(m.main(*sys.argv[2:]))"
)
_search_path = ""


def use(bundle_path: str) -> None:
    """Remember where `supervisor.probe`, `libtmux` and `pynvml` come from: a zipapp, or folders joined by `:`."""
    global _search_path
    _search_path = bundle_path or os.pathsep.join(path for path in sys.path if path)


def argv(module: str, *arguments: str) -> list[str]:
    """The argv that runs `supervisor.probe.<module>.main(*arguments)`: isolated from folder, user and PYTHON*."""
    boot = _BOOT.format(sep=os.pathsep, module=module)
    return [sys.executable, "-I", "-S", "-u", "-c", boot, _search_path, *arguments]
