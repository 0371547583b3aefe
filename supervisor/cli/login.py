"""The daemon's key on a node's machine: put there, and taken away, with the person's own `ssh`."""

import shlex
import subprocess
import tempfile
from pathlib import Path

from supervisor.cli.output import is_terminal, say
from supervisor.model.errors import VigilError
from supervisor.model.node import NodeSpec
from supervisor.node.reach import ssh_words

_READ = (
    'IFS= read -r key || exit 65; case $key in "ssh-ed25519 "*) ;; *) exit 65 ;; esac; '
    # Too short a word would stand in other people's lines too.
    "blob=${key#* }; blob=${blob%% *}; [ ${#blob} -ge 60 ] || exit 65; "
    # A comment in another encoding, or a NUL, makes grep take the file for a binary one: it would leave lines out.
    'lines() { LC_ALL=C grep -a "$@"; }; '
)
_PLACE = "d=$HOME/.ssh; f=$d/authorized_keys; umask 077; "
_THERE = 'lines -v "^[[:space:]]*#" "$f" 2>/dev/null | lines -qF -- "$blob"'
_ADD = (
    f"{_READ}{_PLACE}if {_THERE}; then echo present; exit 0; fi; "
    'mkdir -p "$d" && chmod go-w "$d" || exit 66; '
    # A last line without a line break must not swallow the new one.
    'if [ -s "$f" ] && [ -n "$(tail -c 1 "$f")" ]; then echo >> "$f" || exit 66; fi; '
    'printf "%s\\n" "$key" >> "$f" && chmod go-w "$f" || exit 66; '
    'if command -v restorecon >/dev/null 2>&1; then restorecon "$d" "$f" >/dev/null 2>&1; fi; echo added'
)
_REMOVE = (
    f"{_READ}{_PLACE}if ! {_THERE}; then echo absent; exit 0; fi; "
    # Written back into the same file: its owner, its mode and links to it stay.
    't=$f.vigil.$$; lines -vF -- "$blob" "$f" > "$t"; [ $? -le 1 ] || { rm -f "$t"; exit 66; }; '
    # Should the disk fail now, all that is left of the file is the copy.
    'cat "$t" > "$f" || { echo "vigil: $f could not be written; its lines are in $t" >&2; exit 66; }; '
    'rm -f "$t"; echo removed'
)


class NotDone(VigilError):  # noqa: N818 - says what it is
    """The key could not be changed on the machine."""


def install(spec: NodeSpec, line: str) -> str:
    """Lets the key in as the node's login: `added` or `present`. NotDone where the person's ssh does not get there."""
    return _run(spec, _ADD, line)


def remove(spec: NodeSpec, line: str) -> str:
    """Takes the key's lines away again: `removed` or `absent`. NotDone where the person's ssh does not get there."""
    return _run(spec, _REMOVE, line)


def say_how_to_add(spec: NodeSpec, line: str) -> None:
    """The one line to paste on the machine."""
    assert spec.ssh is not None
    who = f" as {spec.ssh.user}" if spec.ssh.user else ""
    say(f"On {spec.ssh.host}{who}, let Vigil's key in with this line:")
    # The line break first: the file's last line may have none.
    print(f"mkdir -p -m 700 ~/.ssh && printf '\\n%s\\n' {shlex.quote(line)} >> ~/.ssh/authorized_keys")


def _run(spec: NodeSpec, script: str, line: str) -> str:
    assert spec.ssh is not None
    with tempfile.TemporaryDirectory(prefix="vigil-") as folder:
        options = [] if is_terminal() else ["-o", "BatchMode=yes"]
        if spec.host_keys:
            # What was compared a moment ago need not be asked again; the person's own known_hosts still counts.
            known = Path(folder) / "known_hosts"
            known.write_text("".join(f"* {key}\n" for key in spec.host_keys), "ascii")
            options += ["-o", f"GlobalKnownHostsFile={known}"]
        argv = [*ssh_words(spec.ssh, "-T", *options), f"/bin/sh -c {shlex.quote(script)}"]
        try:
            done = subprocess.run(argv, input=line + "\n", stdout=subprocess.PIPE, text=True, check=False)
        except OSError as error:
            raise NotDone(f"Your ssh cannot be started: {error.strerror}.") from error
    words = done.stdout.split()
    if done.returncode or not words or words[-1] not in {"added", "present", "removed", "absent"}:
        raise NotDone(f"Your own ssh did not do it (exit status {done.returncode}).")
    return words[-1]
