"""Stand-ins for container tools, in a folder that the tests' sshd puts in front of PATH.

`pct` does not exist on Debian; Proxmox's own is a check and then `lxc-attach`, as root. `lxc-attach` is the real one
with the tests' LXC path put before its arguments.
"""

import shutil
from pathlib import Path

_PCT = """#!/bin/sh
# stands in for Proxmox: pct exec ID -- COMMAND
[ "$1" = exec ] || {{ echo "400 unknown command: $1" >&2; exit 255; }}
id=$2
[ -e "{lxc_path}/$id/config" ] || {{ echo "Configuration file 'nodes/pve/lxc/$id.conf' does not exist" >&2; exit 2; }}
shift 3
{real} -P "{lxc_path}" -n "$id" -- true 2>/dev/null || {{ echo "container '$id' not running!" >&2; exit 255; }}
exec {real} -P "{lxc_path}" -n "$id" -- "$@"
"""
_LXC_ATTACH = """#!/bin/sh
exec {real} -P "{lxc_path}" "$@"
"""


def write_commands(folder: Path, lxc_path: Path) -> None:
    """Writes both, for the containers below `lxc_path`."""
    folder.mkdir(parents=True, exist_ok=True)
    real = shutil.which("lxc-attach") or "/usr/bin/lxc-attach"
    for name, text in (("pct", _PCT), ("lxc-attach", _LXC_ATTACH)):
        write_command(folder, name, text.format(real=real, lxc_path=lxc_path))


def write_command(folder: Path, name: str, text: str) -> Path:
    """An executable script."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(text, "utf-8")
    path.chmod(0o755)
    return path
