"""`vigil node`: add, check, ls, rm."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from supervisor.cli import login
from supervisor.cli.output import Json, is_terminal, print_json, print_table, say
from supervisor.cli.specfile import read_spec
from supervisor.client import Vigil
from supervisor.model.errors import HostKeyUnknown, InvalidInput
from supervisor.model.node import NodeSpec
from supervisor.model.reading import parse, parse_spec
from supervisor.model.spec import Spec

app = typer.Typer(help="Containers and machines where runs live.", no_args_is_help=True, rich_markup_mode=None)
Name = Annotated[str, typer.Argument(metavar="NAME", help="The node's name in Vigil.")]


@app.command()
def add(
    name: Name,
    address: Annotated[
        str | None, typer.Argument(metavar="[USER@]HOST[:PORT]", help="Over SSH; without: this machine.")
    ] = None,
    pct: Annotated[str | None, typer.Option(metavar="ID", help="A Proxmox container on it.")] = None,
    lxc: Annotated[str | None, typer.Option(metavar="NAME", help="An LXC container on it.")] = None,
    incus: Annotated[str | None, typer.Option(metavar="NAME", help="An Incus container on it.")] = None,
    docker: Annotated[str | None, typer.Option(metavar="NAME", help="A Docker container on it.")] = None,
    prefix: Annotated[
        str | None, typer.Option(metavar="COMMAND", help="Any other command that enters the container.")
    ] = None,
    sudo: Annotated[bool, typer.Option("--sudo", help="Enter the container by `sudo -n`.")] = False,
    user: Annotated[str | None, typer.Option(metavar="USER", help="Who runs live as, on the node.")] = None,
    python: Annotated[str | None, typer.Option(metavar="PATH", help="Python >= 3.10 on the node.")] = None,
    via: Annotated[str | None, typer.Option(metavar="HOST", help="A jump host.")] = None,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Pin the host key that is shown, and install Vigil's key, unasked.")
    ] = False,
    accept_key: Annotated[
        str | None, typer.Option("--accept-key", metavar="FINGERPRINT", help="Pin the host key if it is this one.")
    ] = None,
    install_key: Annotated[
        bool | None,
        typer.Option(
            "--install-key/--no-install-key",
            help="Let Vigil's own key in there, with your own ssh; else you are asked, or shown the line to paste.",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Adds a node and checks what is there.

    Its host key is shown, and pinned once you have compared it. Where Vigil's own key is refused, it is installed with
    your own `ssh`, if you say so. Ends with 1 if something is missing without which no run can live there.
    """
    kinds = {"pct": pct, "lxc": lxc, "incus": incus, "docker": docker}
    spec = parse(
        NodeSpec,
        {
            "name": name,
            "ssh": ssh_of(address, via),
            "container": container_of(kinds, prefix, sudo=sudo),
            "user": user,
            "python": python,
        },
        source="the node",
    )
    with Vigil() as vigil:
        if spec.ssh is not None:
            spec = _pinned(vigil, spec, yes=yes, accept=accept_key)
            _let_in(vigil, spec, install=True if yes and install_key is None else install_key)
        node = vigil.add_node(spec)
        rows = vigil.check_node(name)
    if json:
        print_json(node | {"check": rows})
    else:
        say(f"{name} is added: {node['shown']}")
        _print_rows(rows)
    if not all(row["ok"] for row in rows):
        say(f"When that is mended: vigil node check {name}")
    if not all(row["ok"] for row in rows if row["needed"]):
        raise typer.Exit(1)


@app.command()
def check(
    name: Name,
    file: Annotated[
        Path | None,
        typer.Option("--file", "-f", metavar="SPEC", help="For this run: as its user, and the disk at its folders."),
    ] = None,
    json: Json = False,
) -> None:
    """Checks all that Vigil needs on a node.

    Says how to mend what is missing, and ends with 1 if anything is.
    """
    run = parse_spec(read_spec(file)) if file else None
    with Vigil() as vigil:
        if run is None:
            rows = vigil.check_node(name)
        else:
            spec = spec_of(vigil.node(name))
            rows = vigil.check_spec(spec.model_copy(update={"user": run.user or spec.user}), folders_of(run))
    if json:
        print_json({"name": name, "rows": rows})
    else:
        _print_rows(rows)
    if not all(row["ok"] for row in rows):
        raise typer.Exit(1)


@app.command("ls")
def list_nodes(json: Json = False) -> None:
    """Lists the nodes."""
    with Vigil() as vigil:
        nodes = vigil.nodes()
    if json:
        for node in nodes:
            print_json(node)
        return
    print_table(("NAME", "WHERE", "SEEN", "GPUS", "SAYS"), (row_of(node) for node in nodes))


@app.command("rm")
def remove(
    name: Name,
    keep_key: Annotated[
        bool, typer.Option("--keep-key", help="Leave Vigil's key in authorized_keys on the machine.")
    ] = False,
    anyway: Annotated[
        bool, typer.Option("--anyway", help="Forget it even if it cannot be reached; what stays there is said.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Take Vigil's key away there, unasked.")] = False,
    json: Json = False,
) -> None:
    """Forgets a node on which no run lives, and removes what Vigil made there.

    The files of its runs, the kept probe, the pinned host key, and, if you say so, Vigil's key in authorized_keys.
    """
    with Vigil() as vigil:
        spec = spec_of(vigil.node(name))
        siblings = [other for other in map(spec_of, vigil.nodes()) if other.name != name and other.ssh == spec.ssh]
        left = vigil.remove_node(name, anyway=anyway)
        if spec.ssh is not None and not keep_key:
            key = "kept" if siblings else _shut_out(vigil, spec, yes=yes)
        else:
            key = "kept"
    if json:
        print_json(left | {"removed_node": True, "key": key})
        return
    say(f"{name} is forgotten.")
    for path in left["removed"]:
        say(f"removed {path}")
    for words in left["stays"]:
        say(f"stays   {words}")
    if siblings and not keep_key:
        say(f"Vigil's key stays in authorized_keys there: {siblings[0].name} needs it.")


def folders_of(run: Spec) -> dict[str, str]:
    """The folders of a run on its node that fill up."""
    folders = {"workdir": run.workdir}
    if run.checkpoint:
        path = run.checkpoint.path
        folders["checkpoint"] = path if path.startswith(("/", "~")) else f"{run.workdir.rstrip('/')}/{path}"
    return folders


def spec_of(node: dict[str, Any]) -> NodeSpec:
    """The node as the API shows it, without what it said of itself."""
    return NodeSpec.model_validate({key: node[key] for key in NodeSpec.model_fields if key in node})


def ssh_of(address: str | None, via: str | None) -> dict[str, Any] | None:
    """`[USER@]HOST[:PORT]` (IPv6 in brackets) as NodeSpec.ssh; None: this machine."""
    if address is None:
        if via:
            raise InvalidInput("--via needs an address behind it.", remedy="vigil node add NAME USER@HOST --via JUMP")
        return None
    user, _, rest = address.rpartition("@")
    host, colon, port = rest.rpartition(":")
    if rest.startswith("[") and rest.endswith("]"):
        host, port = rest[1:-1], ""
    elif not colon or (rest.count(":") > 1 and not rest.startswith("[")):
        host, port = rest, ""
    else:
        host = host.removeprefix("[").removesuffix("]")
        if not port.isdecimal():
            raise InvalidInput(f"{address}: {port!r} is no port.", remedy="Write [USER@]HOST[:PORT].")
    return {"host": host, "port": int(port) if port else None, "user": user or None, "via": via}


def container_of(kinds: dict[str, str | None], prefix: str | None, *, sudo: bool) -> dict[str, Any] | None:
    """The container that the options name; InvalidInput for more than one."""
    chosen = [(kind, name) for kind, name in kinds.items() if name is not None]
    if len(chosen) + (prefix is not None) > 1:
        raise InvalidInput(
            "More than one container is named.", remedy="Give one of --pct --lxc --incus --docker --prefix."
        )
    if prefix is not None:
        return {"kind": "prefix", "prefix": prefix.split(), "sudo": sudo}
    if not chosen:
        if sudo:
            raise InvalidInput("--sudo is for entering a container, and none is named.")
        return None
    kind, name = chosen[0]
    return {"kind": kind, "id": name, "sudo": sudo}


def row_of(node: dict[str, Any]) -> tuple[str | Text, ...]:
    """Its line of the list: what is on hold hides no fault."""
    link = node["link"]
    seen = Text("yes", style="green") if link["ok"] else Text("no", style="red")
    hold = node.get("hold")
    says = (
        f"on hold by {hold['by']}: {hold['why']}" if hold else "",
        link["error"] or (f"{len(node['missing'])} missing" if node["missing"] else ""),
        _claims(node["gpus"]),
    )
    words = "; ".join(part for part in says if part)
    return (node["name"][:20], node["shown"][:24], seen, str(len(node["gpus"])), words)


def _pinned(vigil: Vigil, spec: NodeSpec, *, yes: bool, accept: str | None) -> NodeSpec:
    key = vigil.host_key(spec)
    assert spec.ssh is not None
    host, fingerprint = spec.ssh.host, key["fingerprint"]
    if accept is not None and accept.strip() != fingerprint:
        raise HostKeyUnknown(f"{host} shows the host key {fingerprint}, not {accept}: nothing was added.")
    if accept is None and not yes:
        say(f"{host} shows the host key {fingerprint}")
        if not is_terminal():
            raise HostKeyUnknown(
                f"The host key of {host} is not accepted yet.",
                remedy=f"Compare it, then add --accept-key {fingerprint}",
            )
        say("Compare it with what that machine itself prints: ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub")
        if not typer.confirm("Is it the right one?", err=True):
            say("Nothing was added.")
            raise typer.Exit(1)
    return spec.model_copy(update={"host_keys": (key["line"],)})


def _let_in(vigil: Vigil, spec: NodeSpec, *, install: bool | None) -> None:
    """Sees to it that the daemon's own key is let in, or says the line with which a person can do it."""
    assert spec.ssh is not None
    key = vigil.own_key(spec)
    if key["accepted"] is not False:
        return  # it is let in; or nobody can say, and the check tells why
    if install is None and is_terminal():
        say(f"{spec.ssh.host} does not let Vigil's own key in yet. Your own ssh can install it, once.")
        install = typer.confirm("Shall it?", default=True, err=True)
    if not install:
        login.say_how_to_add(spec, key["line"])
        return
    try:
        done = login.install(spec, key["line"])
    except login.NotDone as error:
        say(f"vigil: {error.detail}")
        login.say_how_to_add(spec, key["line"])
        return
    if vigil.own_key(spec)["accepted"]:
        say(f"Vigil's key is {'installed' if done == 'added' else 'there'}.")
        return
    say("Vigil's key stands in ~/.ssh/authorized_keys there, but sshd does not let it in.")
    say("Look at AuthorizedKeysFile and AllowUsers in its sshd_config, and at the modes of ~ and ~/.ssh.")


def _shut_out(vigil: Vigil, spec: NodeSpec, *, yes: bool) -> str:
    """Takes the daemon's key away again: `removed`, `absent` or `kept`."""
    assert spec.ssh is not None
    key = vigil.own_key(spec)
    if key["accepted"] is False:
        return "absent"
    where = f"~/.ssh/authorized_keys on {spec.ssh.host}"
    if not yes and not (
        is_terminal() and typer.confirm(f"Take Vigil's key out of {where}, with your own ssh?", default=True, err=True)
    ):
        say(f"Vigil's key stays in {where}: {key['line']}")
        return "kept"
    try:
        return login.remove(spec, key["line"])
    except login.NotDone as error:
        say(f"vigil: {error.detail} Vigil's key stays in {where}: {key['line']}")
        return "kept"


def _print_rows(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        mark = "ok  " if row["ok"] else "miss"
        mend = "" if row["ok"] or not row["mend"] else f"\n       mend: {row['mend']}"
        print(f"{mark} {row['what']}: {row['found']}{mend}")


def _claims(gpus: list[dict[str, Any]]) -> str:
    """`vit-l has 0, 1`."""
    owners: dict[str, list[str]] = {}
    for gpu in gpus:
        if gpu.get("claimed_by"):
            owners.setdefault(gpu["claimed_by"], []).append(str(gpu["index"]))
    return "; ".join(f"{name} has GPU {', '.join(indices)}" for name, indices in owners.items())
