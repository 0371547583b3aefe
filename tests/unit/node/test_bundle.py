"""The probe's archive."""

import ast
import io
import subprocess
import sys
import zipfile
from importlib.resources import files
from pathlib import Path

from supervisor.node.bundle import bundle, pack


def test_equal_sources_give_equal_bytes_in_any_order() -> None:
    assert pack({"a.py": b"1", "b.py": b"2"}) == pack({"b.py": b"2", "a.py": b"1"})
    assert pack({"a.py": b"1"}).digest != pack({"a.py": b"2"}).digest


def test_it_holds_what_the_node_needs_and_nothing_of_ours_beside() -> None:
    names = zipfile.ZipFile(io.BytesIO(bundle().content)).namelist()
    assert {"supervisor/__init__.py", "supervisor/probe/serve.py", "libtmux/server.py", "pynvml.py"} <= set(names)
    assert not [name for name in names if name.startswith("supervisor/") and "/probe/" not in name][1:]
    assert not [name for name in names if "__pycache__" in name or name.startswith("libtmux/test")]


def test_it_can_be_imported_from_without_anything_installed(tmp_path: Path) -> None:
    path = tmp_path / "probe.pyz"
    path.write_bytes(bundle().content)
    code = "import sys; sys.path[:] = [sys.argv[1], *sys.path]; import supervisor.probe.serve, libtmux, pynvml"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code, path], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_boot_program_compiles_on_every_python_3() -> None:
    source = files("supervisor.node").joinpath("boot.py").read_text("utf-8")
    ast.parse(source, feature_version=(3, 4))
    for node in ast.walk(ast.parse(source)):
        assert not isinstance(node, ast.JoinedStr | ast.NamedExpr)
