"""Importing a large module from source without keeping what compiling it took.

pynvml's 330 kB of source leave 13 MB of garbage in the process that compiles them, for as long as it lives; from an
archive nothing keeps the compiled code. So a short-lived child finds and compiles it and hands the code over.
"""

import importlib
import importlib.util
import marshal
import os
import sys
from types import CodeType, ModuleType


def lean_import(name: str) -> ModuleType:
    """The module `name` (no package), imported; what `import` raises where it cannot be. Call it from a process with
    one thread."""
    if name in sys.modules:
        return sys.modules[name]
    code = _compiled(name)
    if code is None:
        return importlib.import_module(name)
    module = ModuleType(name)
    module.__file__ = code.co_filename
    sys.modules[name] = module
    try:
        exec(code, module.__dict__)  # noqa: S102 - what an import does
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _compiled(name: str) -> CodeType | None:
    source, sink = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(source)
            spec = importlib.util.find_spec(name)  # from an archive this compiles already
            with os.fdopen(sink, "wb") as file:
                marshal.dump(spec.loader.get_code(name), file)  # type: ignore[union-attr]
        finally:
            os._exit(0)
    os.close(sink)
    with os.fdopen(source, "rb") as file:
        data = file.read()
    os.waitpid(child, 0)
    try:
        code = marshal.loads(data)  # noqa: S302 - from our own child
    except (EOFError, ValueError, TypeError):
        return None
    return code if isinstance(code, CodeType) else None
