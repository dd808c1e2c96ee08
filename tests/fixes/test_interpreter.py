"""TRITON_INTERPRET=1: option keywords are accepted as on the compiler. Run in processes of their own, since
Triton reads the variable when a kernel is decorated."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytest.importorskip("triton")
pytest.importorskip("numpy", reason="Triton's interpreter needs NumPy")

ENABLE = "import triton_ascend_compat\ntriton_ascend_compat.enable()\n"

KERNEL = """
@triton.jit
def kernel(n, multibuffer: tl.constexpr, BLOCK: tl.constexpr):
    tl.static_assert(BLOCK == 64)
"""


def run(tmp_path, *parts, **variables):
    script = tmp_path / "script.py"
    script.write_text("import triton, triton.language as tl\n" + "".join(parts))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **variables}
    return subprocess.run(
        [sys.executable, script],
        capture_output=True,
        text=True,
        check=False,
        env={**environment, "TRITON_INTERPRET": "1"},
    )


LAUNCH = "kernel[(2,)](7, multibuffer=True, BLOCK=64{})\nprint('ran')\n"


def test_without_the_shim_an_option_is_a_type_error(tmp_path):
    done = run(tmp_path, KERNEL, LAUNCH.format(", unit_flag=True"))
    assert done.stdout == ""
    assert "unexpected keyword argument 'unit_flag'" in done.stderr


@pytest.mark.parametrize("options", [", unit_flag=True, num_warps=4", ", debug=False, num_ctas=1", ""])
def test_an_installed_option_is_accepted(tmp_path, options):
    done = run(tmp_path, KERNEL, ENABLE, LAUNCH.format(options))
    assert (done.stdout, done.stderr) == ("ran\n", "")


def test_an_absent_or_foreign_one_is_said_once(tmp_path):
    code = LAUNCH.format(", auto_blockify_size=2, waves_per_eu=1") * 2
    done = run(tmp_path, KERNEL, ENABLE, code)
    assert done.stdout == "ran\nran\n"
    assert done.stderr.count("AbsentOptionWarning") == 2
    assert "'auto_blockify_size'" in done.stderr
    assert "HIP" in done.stderr


def test_an_unknown_one_is_pythons_error_with_the_nearest_names(tmp_path):
    done = run(tmp_path, KERNEL, ENABLE, LAUNCH.format(", unit_flg=True"))
    assert "TypeError: kernel() got an unexpected keyword argument 'unit_flg'" in done.stderr
    assert "unit_flag" in done.stderr


def test_strict_mode(tmp_path):
    done = run(
        tmp_path, KERNEL, ENABLE, LAUNCH.format(", auto_blockify_size=2"), TRITON_ASCEND_COMPAT_STRICT="1"
    )
    assert "CompileOptionError" in done.stderr


def test_switched_off_or_disabled_it_is_as_before(tmp_path):
    launch = LAUNCH.format(", unit_flag=True")
    for more, code in [
        ({"TRITON_ASCEND_COMPAT_DISABLE": "interpreter"}, launch),
        ({}, f"triton_ascend_compat.disable()\n{launch}"),
    ]:
        done = run(tmp_path, KERNEL, ENABLE, code, **more)
        assert "unexpected keyword argument 'unit_flag'" in done.stderr
        assert done.stdout == ""


def test_before_triton_has_imported_its_interpreter(tmp_path):
    """`enable()` first, the kernel later: the interpreter is imported when the first kernel is decorated."""
    check = (
        "triton_ascend_compat.disable()\n"
        "from triton.runtime.interpreter import GridExecutor\n"
        "print(hasattr(GridExecutor.__call__, '__wrapped__'))\n"
    )
    done = run(tmp_path, ENABLE, KERNEL, LAUNCH.format(", unit_flag=True"), check)
    assert (done.stdout, done.stderr) == ("ran\nFalse\n", "")
