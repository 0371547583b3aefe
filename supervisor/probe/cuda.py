"""The child process that asks the CUDA driver what a program of this user would find. It may hang with the driver."""

import ctypes
import json
import sys
from typing import Any

LIBRARIES = ("libcuda.so.1", "libcuda.so")


def main() -> int:
    """Answer JSON lines until the input ends."""
    _say({"ready": True})
    for line in sys.stdin:
        _say({"result": count()} if json.loads(line)["op"] == "count" else {"error": "no such op"})
    return 0


def count() -> dict[str, Any]:
    """`library` (None where none can be loaded), `count`, and `error` where the driver says no."""
    library, name = None, None
    why = ""
    for name in LIBRARIES:
        try:
            library = ctypes.CDLL(name)
            break
        except OSError as error:
            why = why or f"{error}"
    if library is None:
        return {"library": None, "count": None, "error": why}
    code = library.cuInit(0)
    if code:
        return {"library": name, "count": None, "error": f"cuInit: {_word(library, code)}"}
    number = ctypes.c_int(0)
    code = library.cuDeviceGetCount(ctypes.byref(number))
    if code:
        return {"library": name, "count": None, "error": f"cuDeviceGetCount: {_word(library, code)}"}
    return {"library": name, "count": number.value, "error": None}


def _word(library: Any, code: int) -> str:
    name = ctypes.c_char_p()
    try:
        library.cuGetErrorName(code, ctypes.byref(name))
    except AttributeError:
        return str(code)
    return f"{name.value.decode('ascii', 'replace')} ({code})" if name.value else str(code)


def _say(reply: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(reply) + "\n")
    sys.stdout.flush()
