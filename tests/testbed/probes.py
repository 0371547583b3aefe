"""Probes that stand in for the real one in tests of the link."""

from functools import cache
from importlib.resources import files

from supervisor.node.bundle import Bundle, pack


@cache
def scripted_probe() -> Bundle:
    """`scripted_probe.py`, packed like the real probe."""
    return pack(
        {
            "supervisor/__init__.py": b"",
            "supervisor/probe/__init__.py": b"",
            "supervisor/probe/wire.py": files("supervisor.probe").joinpath("wire.py").read_bytes(),
            "supervisor/probe/serve.py": files("tests.testbed").joinpath("scripted_probe.py").read_bytes(),
        }
    )
