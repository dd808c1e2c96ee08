"""The real wheel of triton-ascend 3.2.0 in a throw-away environment: patched, used, restored, uninstalled."""

from __future__ import annotations

import base64
import csv
import hashlib
import json
import subprocess
import sys

import pytest

from tests import environments
from tests.patching.sites import assert_refused, nothing_left_behind, patch
from triton_ascend_compat.patching.transaction import FOLDER

DISTRIBUTION = "triton_ascend-3.2.0.dist-info"

#: Compiles to the end with the offline mode, which keeps the last stage from calling CANN. No shim is on.
USE = """
import json, pickle, sys
import triton
from tests.kernels import SIGNATURE, add_kernel, named_like_options
from triton.compiler import ASTSource
from triton.backends.compiler import GPUTarget
from triton_ascend_compat.offline import offline

LEAKED = {"multibuffer": False, "num_warps": 8, "set_workspace_multibuffer": 2}

def attempt(constants, kernel=add_kernel, target=None, options=None):
    try:
        done = triton.compile(ASTSource(kernel, SIGNATURE, constants), target or npu.target, options)
    except Exception as error:
        again = pickle.loads(pickle.dumps(error))
        return [str(error), [t.__name__ for t in type(error).__mro__], str(again) == str(error)]
    values = {name: getattr(done.metadata, name) for name in LEAKED}
    constants = list(done.src.constants)
    return {"hash": done.hash, "values": values, "constants": constants, "ttir": done.asm["ttir"]}

with offline() as npu:
    real = {"XBLOCK": 1024}
    found = {
        "leaky": attempt({**real, **LEAKED}),
        "asked": attempt(real, options=LEAKED),
        "plain": attempt(real),
        "parameters": attempt({"multibuffer": True, "num_warps": 64}, named_like_options),
        "misspelt": attempt({**real, "multibufer": False}),
        "absent": attempt({**real, "auto_blockify_size": 2}),
        "wrong type": attempt({**real, "num_warps": "eight"}),
        "cpu": attempt({**real, "num_warps": 8}, target=GPUTarget("cpu", "", 0)),
    }
print(json.dumps(found))
"""

STATUS = """
import json, sys
import triton
from triton.compiler import ASTSource
import triton_ascend_compat
before = [vars(ASTSource)[name] for name in ("__init__", "parse_options", "make_ir")]
status = triton_ascend_compat.enable()
after = [vars(ASTSource)[name] for name in ("__init__", "parse_options", "make_ir")]
print(json.dumps([status.by, status.needed, status.reason, before[1:] == after[1:]]))
"""


class Installed(environments.Environment):
    """An environment with triton-ascend from its wheel."""

    @property
    def site(self):
        return self.site_packages.resolve()

    def python_script(self, code, **variables):
        done = self.run("-c", code, PYTHONPATH=str(environments.ROOT), **variables)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    def differing(self):
        """Files of the wheel that do not have the bytes that the wheel gave them."""
        with (self.site / DISTRIBUTION / "RECORD").open(newline="") as record:
            rows = [row for row in csv.reader(record) if row[1]]
        assert {"triton/compiler/compiler.py", "triton/_C/libtriton.so"} <= {row[0] for row in rows}
        changed = []
        for name, promised, _ in rows:
            algorithm, _, expected = promised.partition("=")
            digest = hashlib.new(algorithm, (self.site / name).read_bytes()).digest()
            if base64.urlsafe_b64encode(digest).rstrip(b"=").decode() != expected:
                changed.append(name)
        return changed

    def unknown(self):
        """Files that are not the wheel's, but for bytecode and what the environment came with."""
        with (self.site / DISTRIBUTION / "RECORD").open(newline="") as record:
            known = {row[0] for row in csv.reader(record)}
        return {
            name
            for name in self.files()
            if name.startswith(("triton", FOLDER)) and "__pycache__" not in name
            if not (self.site / name).is_dir() and name not in known
        }


@pytest.fixture(scope="module")
def wheel_file(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    download = ["download", "-q", "--no-deps", "--no-cache-dir", "-d", str(folder), "triton-ascend==3.2.0"]
    done = subprocess.run([sys.executable, "-m", "pip", *download], capture_output=True, text=True)
    assert done.returncode == 0, f"pip cannot download triton-ascend 3.2.0: {done.stderr}"
    (wheel,) = folder.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def installed(wheel_file, tmp_path_factory):
    made = environments.create(tmp_path_factory.mktemp("environment"))
    environment = Installed(made.folder, made.variables)
    environment.link("pybind11")
    return environment


def install(environment, wheel_file):
    environment.pip("install", "--no-deps", "--no-index", "--no-compile", str(wheel_file))
    assert environment.differing() == []
    assert environment.unknown() == set()


def test_patched_used_restored_uninstalled(installed, wheel_file):
    install(installed, wheel_file)
    site = installed.site

    # The bug, first.
    found = installed.python_script(USE)
    for name in ("leaky", "misspelt"):
        assert "is not in list" in found[name][0]
        assert found[name][1][0] == "ValueError"
    unpatched = found

    assert patch("check", site=site)[0] == 1
    assert patch("apply", site=site)[0] == 0
    assert installed.differing() == ["triton/compiler/compiler.py", "triton/compiler/errors.py"]
    assert {name.partition("/")[0] for name in installed.unknown()} == {FOLDER}

    found = installed.python_script(USE)
    assert found["leaky"] == found["asked"]
    assert found["leaky"]["values"] == {
        "multibuffer": False,
        "num_warps": 8,
        "set_workspace_multibuffer": 2,
    }
    assert found["leaky"]["constants"] == ["XBLOCK"]
    assert found["leaky"]["hash"] != found["plain"]["hash"]
    assert found["parameters"]["constants"] == ["multibuffer", "num_warps"]
    for name in ("plain", "parameters"):
        # The same but for Triton's own key, which covers its source files.
        assert {**found[name], "hash": ""} == {**unpatched[name], "hash": ""}
    assert found["cpu"] == unpatched["cpu"]
    assert found["cpu"][:2] == ["'num_warps' is not in list", unpatched["cpu"][1]]
    refused = {"misspelt": "multibufer", "absent": "auto_blockify_size", "wrong type": "num_warps"}
    for name, key in refused.items():
        text, types, survives_pickling = found[name]
        assert repr(key) in text
        assert "add_kernel" in text
        assert {"OutOfResources", "CompilationError", "ValueError"} <= set(types)
        assert survives_pickling
    for name in ("misspelt", "absent"):
        assert "is not in list" in found[name][0]

    assert patch("apply", site=site)[0] == 0
    assert patch("check", site=site)[0] == 0
    assert patch("revert", site=site)[0] == 0
    assert installed.differing() == []
    assert installed.unknown() == set()
    assert installed.python_script(USE) == unpatched, "no bytecode of the patched files is left"

    # pip removes it after a revert, and when it is patched.
    installed.pip("uninstall", "-q", "-y", "triton-ascend")
    assert not [name for name in installed.files() if name.startswith("triton")]
    install(installed, wheel_file)
    assert patch("apply", site=site)[0] == 0
    installed.pip("uninstall", "-q", "-y", "triton-ascend")
    assert not [name for name in installed.files() if name.startswith("triton")]
    assert_refused(patch("revert", site=site), "does not hold a triton package")
    # What was kept to restore the files does not stand in the way of a new installation.
    assert not nothing_left_behind(site)
    installed.pip("install", "--no-deps", "--no-index", "--no-compile", str(wheel_file))
    assert patch("revert", site=site)[0] == 0
    assert nothing_left_behind(site)
    assert installed.differing() == []


def test_the_runtime_shim_stands_down(installed, wheel_file):
    install(installed, wheel_file)
    site = installed.site
    assert patch("apply", site=site)[0] == 0
    by, needed, reason, untouched = installed.python_script(STATUS)
    assert by == "Triton itself"
    assert not needed
    assert untouched
    assert "not needed" in reason
    # Both at once: harmless, also when the shim comes in by itself at start-up.
    found = installed.python_script("import triton_ascend_compat\ntriton_ascend_compat.enable()\n" + USE)
    assert found["leaky"] == found["asked"]
    assert patch("revert", site=site)[0] == 0
    by, needed, _, _ = installed.python_script(STATUS)
    assert by == "triton_ascend_compat"
    assert needed
