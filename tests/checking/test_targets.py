"""`check` judges a target as `python` would run it: its world, its children, its end, whose failure."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.checking.test_check import PREAMBLE, check, compiles, in_a_project, script
from triton_ascend_compat.checking import VARIABLE

__all__ = ["in_a_project"]

KERNELS = """
import atexit, contextlib, json, os, subprocess, sys, threading, time
import triton
import triton.language as tl
from triton_ascend_compat.offline import Pointer, offline

@triton.jit
def one(y, N: tl.constexpr):
    tl.static_assert(N < 4, "too large")
    tl.store(y, N)

@triton.jit
def two(y, N: tl.constexpr):
    tl.store(y, N)

Y = Pointer("fp32")

def launch(n):
    one[(1,)](Y, n)
    return n

"""


def target(body: str, *options: str, name: str = "script.py") -> tuple[int, dict[str, Any]]:
    """The exit code and what the JSON report tells of a script."""
    Path(name).write_text(KERNELS + body)
    result = check("--format=json", *options, name)
    return result.exit_code, json.loads(result.stdout)["targets"][0]


def kernels(told: dict[str, Any]) -> list[tuple[str, bool]]:
    return [(each["kernel"], each["ok"]) for each in told["compiles"]]


SEEN = """
import json, os, sys
ours = ("PYTHONPATH", "LC_CTYPE", "{variable}")
seen = {{
    "file": __file__, "argv": sys.argv, "path": sys.path, "spec": str(__spec__ and __spec__.origin),
    "flags": repr(sys.flags),
    "environment": {{k: v for k, v in os.environ.items() if k not in ours}},
    "main": vars(sys.modules["__main__"]) is globals(), "json": json.__file__,
}}
open("seen.json", "w").write(json.dumps(seen))
"""


@pytest.mark.parametrize("words", [["sub/script.py"], ["-m", "sub.script"]])
def test_the_world_of_a_target_is_that_of_python(words: list[str]) -> None:
    Path("sub").mkdir()
    Path("sub/script.py").write_text(SEEN.format(variable=VARIABLE))
    if words[0] != "-m":
        for name in ("json.py", "rich.py", "click.py", "triton_ascend_compat.py"):
            Path(name).write_text("raise SystemExit('a module of the current folder')\n")
    # Named, since readline sets COLUMNS and LINES behind the back of os.environ.
    subprocess.run([sys.executable, *words, "--size", "4"], check=True, env=dict(os.environ))
    expected = json.loads(Path("seen.json").read_text())
    Path("seen.json").unlink()
    result = check("--allow-empty", *words, "--", "--size", "4")
    assert result.exit_code == 0, result.output
    assert json.loads(Path("seen.json").read_text()) == expected


@pytest.mark.parametrize(
    "body",
    [
        "one[(1,)](Y, 8)\n",
        "def f():\n    one[(1,)](\n        Y,\n        8,\n    )\nf()\n",
        "for n in (8, 9):\n    one.warmup(Y, n, grid=(1,))\n",
        "try:\n    one[(1,)](Y, 8)\nfinally:\n    pass\n",
        "try:\n    pass\nexcept ValueError:\n    pass\nelse:\n    one[(1,)](Y, 8)\n",
        "sys.stderr.close()\none[(1,)](Y, 8)\n",
        "if Y: one[(1,)](Y, 8)\n",
        "launch(8 if Y else 1)\n",
        "for n in (8, 9): one[lambda _: (1,)](Y, n if Y else 1)\n",
        "thread = threading.Thread(target=launch, args=[8])\nthread.start()\nthread.join()\n",
    ],
)
def test_a_script_goes_on_after_a_launch_that_nothing_depends_on(body: str) -> None:
    code, told = target(body + "two[(1,)](Y, 8)\n")
    assert code == 1
    assert ("two", True) in kernels(told)
    assert told["stopped_at"] is None
    assert told["went_on"]


@pytest.mark.parametrize(
    ("body", "reached"),
    [
        ("x = one[(1,)](Y, 8)\n", False),
        ("assert not one[(1,)](Y, 8)\n", False),
        ("try:\n    launch(8)\nexcept Exception:\n    sys.exit(0)\n", False),
        ("with contextlib.suppress(Exception):\n    launch(8)\n    two[(1,)](Y, 1)\n", True),
    ],
)
def test_what_waits_for_the_exception_gets_it(body: str, reached: bool) -> None:
    code, told = target(body + "two[(1,)](Y, 8)\n")
    assert code == 1
    assert kernels(told) == [("one", False), *([("two", True)] if reached else [])]
    assert told["went_on"] == []
    assert (told["stopped_at"] is not None) == ("try" not in body and "with" not in body)


TEXT = "try:\n    launch(8)\nexcept Exception as error:\n    text, kind = str(error), type(error)\n"


@pytest.mark.parametrize(
    "body",
    [
        TEXT + "raise AssertionError(text)\n",
        TEXT + "raise RuntimeError(text)\n",
        "launch(8)\nraise ValueError\n",
        "launch(8)\nsys.exit(1)\n",
        "launch(1)\nos._exit(7)\n",
    ],
)
def test_a_failure_of_the_script_is_not_taken_for_a_kernel_s(body: str) -> None:
    code, told = target(body)
    assert code == 3
    assert told["failure"] is not None


def test_a_launch_that_a_compiled_kernel_refuses_is_the_kernel_s_failure() -> None:
    code, told = target("one.warmup(Y, 1, grid=(1,))[70000, 1, 1](Y)\n")
    assert (code, told["failure"], kernels(told)) == (1, None, [("one", True), ("one", False)])


def test_an_error_made_of_a_kernel_s_is_the_kernel_s() -> None:
    body = (
        "try:\n    launch(8)\nexcept Exception as error:\n    raise RuntimeError('in my words') from error\n"
    )
    code, told = target(body)
    assert (code, told["failure"]) == (1, None)
    assert "script.py" in told["stopped_at"]


@pytest.mark.skipif(sys.version_info < (3, 11), reason="ExceptionGroup came with Python 3.11")
@pytest.mark.parametrize(("more", "code"), [("", 1), (", ValueError('mine')", 3)])
def test_a_group_of_errors_is_the_kernels_if_all_are(more: str, code: int) -> None:
    body = (
        f"try:\n    launch(8)\nexcept Exception as error:\n    raise ExceptionGroup('all', [error{more}])\n"
    )
    assert target(body)[0] == code


WORKER = "import script\nscript.launch({})\n"
IN_MAIN = "if __name__ == '__main__':\n    "


@pytest.mark.parametrize("size", [1, 8])
@pytest.mark.parametrize(
    "start",
    [
        "subprocess.run([sys.executable, 'worker.py'])",
        "__import__('multiprocessing').get_context('spawn').Process(target=launch, args=[{}]).start()",
        "__import__('multiprocessing').get_context('fork').Process(target=launch, args=[{}]).start()",
        "threading.Timer(0.2, launch, [{}]).start()",
        "atexit.register(launch, {})",
        "__import__('weakref').finalize(Y, launch, {})",
        "os.fork() or launch({})",
        "subprocess.Popen([sys.executable, 'worker.py'])",
        "os.closerange(3, 64); kept = open('3', 'w'); launch({})",
        "sys.stderr.close(); launch({})",
    ],
)
def test_what_is_compiled_elsewhere_or_late_counts(start: str, size: int) -> None:
    Path("worker.py").write_text(WORKER.format(size))
    code, told = target(f"{IN_MAIN}two[(1,)](Y, 1)\n    {start.format(size)}\n    time.sleep(0)\n")
    assert sorted(kernels(told)) == [("one", size == 1), ("two", True)]
    assert code == (size != 1)
    assert told["outside"] == []


CRASH = "triton.compiler.compiler.ast_to_ttir = lambda *_, **__: os.abort()\n"


@pytest.mark.parametrize(
    ("before", "code"),
    [
        ("", 1),
        ("os.fork() and os._exit(0 * os.wait()[1])\n", 1),
        ("if os.fork():\n    os.wait(); [][0]\n", 3),
    ],
)
def test_a_compiler_that_crashes_is_a_failure_of_its_kernel(before: str, code: int) -> None:
    got, told = target(f"two[(1,)](Y, 1)\n{before}{CRASH}two[(1,)](Y, 1)\nlaunch(2)\n")
    assert kernels(told) == [("two", True), ("one", False)]
    assert "the process ended while this was compiled" in told["compiles"][1]["error"]
    assert told["compiles"][1]["config"] == {"N": 2}
    assert got == code


def test_a_front_end_that_runs_alone_is_no_crash() -> None:
    code, told = target(
        "two[(1,)](Y, 1)\n"
        "from triton._C.libtriton import ir\n"
        "source = triton.compiler.ASTSource(two, {'y': '*fp32'}, {'N': 2})\n"
        "target = triton.runtime.driver.active.get_current_target()\n"
        "backend = triton.compiler.compiler.make_backend(target)\n"
        "options = backend.parse_options(source.parse_options())\n"
        "context = ir.context(); ir.load_dialects(context); backend.load_dialects(context)\n"
        "source.make_ir(options, backend.get_codegen_implementation(), backend.get_module_map(), context)\n"
    )
    assert (code, kernels(told)) == (0, [("two", True)]), told


@pytest.mark.parametrize("before", ["", "os.fork() and os._exit(os.waitpid(-1, 0)[1])\n"])
def test_a_refusal_that_nobody_hears_of_counts_though_nothing_comes_after_it(before: str) -> None:
    code, told = target(
        "two[(1,)](Y, 1)\n"
        + before
        + "source = triton.compiler.ASTSource(one, {'y': '*fp32'}, {'N': 1, 'multibufer': False})\n"
        "with contextlib.suppress(ValueError):\n    triton.compile(source)\nos._exit(0)\n"
    )
    assert kernels(told) == [("two", True), ("one", False)]
    assert code == 1


@pytest.mark.parametrize(
    ("start", "outside"),
    [
        ("subprocess.run([sys.executable, '-I', 'worker.py'])", True),
        ("subprocess.run([sys.executable, 'worker.py'], env={})", True),
        ("subprocess.run(['env', '-u', 'PYTHONPATH', sys.executable, 'worker.py'])", True),
        ("subprocess.run(['/bin/sh', '-c', 'true; ' + sys.executable + ' -E worker.py'])", True),
        ("subprocess.run('PYTHONPATH=. ' + sys.executable + ' worker.py', shell=True)", True),
        ("os.system(sys.executable + ' -u -S worker.py')", True),
        ("subprocess.run([sys.executable, '-W', 'ignore', '-Xdev', '-bI', 'worker.py'])", True),
        ("subprocess.run(['./worker.py'], env={})", True),
        ("os.execve(os.open(sys.executable, 0), [sys.executable, 'worker.py'], {})", True),
        ("subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)', 'worker.py'])", True),
        ("subprocess.Popen([sys.executable, 'worker.py'])", False),
        ("os.system('PYTHONPATH=$PYTHONPATH:. ' + sys.executable + ' -u worker.py')", False),
        ("subprocess.run('echo worker.py -I; ' + sys.executable + ' -u worker.py -I', shell=True)", False),
        ("subprocess.run(['grep', '-r', 'PYTHONPATH=', 'worker.py'])", False),
        ("subprocess.run(['grep', 'python -I', 'worker.py'])", False),
        ("subprocess.run(['ls', 'worker.py'], env={'PATH': os.environ['PATH']})", False),
        (
            "subprocess.run(['sh', '-c', sys.executable + ' worker.py'], env={'PATH': os.environ['PATH']})",
            True,
        ),
    ],
)
def test_a_child_that_cannot_be_recorded_is_told(start: str, outside: bool) -> None:
    Path("worker.py").write_text(f"#!{sys.executable}\n")
    Path("worker.py").chmod(0o755)
    code, told = target(f"{IN_MAIN}two[(1,)](Y, 1)\n    {start}\n")
    assert code == 0
    assert ["worker.py" in each for each in told["outside"]] == [True] * outside
    assert ("a child process ran outside of the check" in check("script.py").stdout) == outside


def test_a_script_s_own_offline_block_counts() -> None:
    code, told = target(
        "with offline('Ascend910B3') as s:\n    launch(1)\n    launch(8)\nassert len(s.records) == 2\n"
    )
    assert [(each["chip"], each["ok"]) for each in told["compiles"]] == [
        ("Ascend910B3", True),
        ("Ascend910B3", False),
    ]
    assert code == 1


def test_nothing_compiled_is_no_success() -> None:
    Path("good.py").write_text(KERNELS + "launch(1)\n")
    Path("empty.py").write_text(KERNELS)
    result = check("good.py", "empty.py")
    assert result.exit_code == 3
    assert "empty.py (Ascend910B2): nothing was compiled" in result.stdout
    assert "good.py (Ascend910B2): nothing" not in result.stdout
    assert check("--allow-empty", "empty.py").exit_code == 0


@pytest.mark.parametrize("options", [["--jobs", "1"], ["--chip=Ascend910B2"]])
def test_options_stand_anywhere(options: list[str]) -> None:
    Path("mod.py").write_text(PREAMBLE + "add.warmup(*POINTERS, 9, XBLOCK=int(sys.argv[2]), grid=(1,))\n")
    name = script("add.warmup(*POINTERS, 9, XBLOCK=int(sys.argv[2]), grid=(1,))")
    result = check(name, *options, "-m", "mod", "--format=json", "--", "-m", "16")
    assert [each["config"]["XBLOCK"] for each in compiles(result)] == [16, 16], result.stderr


@pytest.mark.parametrize(
    ("test", "code", "failure"),
    [
        ("launch(8)", 1, None),
        ("launch(1)\n    raise ValueError('mine')", 3, "ValueError: mine"),
        (
            "try:\n        launch(8)\n    except Exception:\n        raise ValueError('mine') from None",
            3,
            "mine",
        ),
        ("pass\nlaunch(8)", 1, None),
        ("launch(8)\nimport missing", 3, "test_it.py: ModuleNotFoundError: No module named 'missing'"),
        ("launch(8)\ndef test_next():\n    raise KeyboardInterrupt", 3, "the run: KeyboardInterrupt"),
    ],
)
def test_a_test_s_own_failure_is_told_from_a_kernel_s(test: str, code: int, failure: str | None) -> None:
    Path("test_it.py").write_text(f"{KERNELS}\ndef test_it():\n    {test}\n")
    result = check("--format=json", "pytest", "-q", "-p", "no:cacheprovider", "test_it.py")
    assert result.exit_code == code, result.stderr
    told = json.loads(result.stdout)["targets"][0]["failure"]
    assert told is None if failure is None else failure in told


ENDLESS = """
launch(1)
started = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
away = subprocess.Popen(["sleep", "60"], start_new_session=True)
open("part", "w").write(f"{os.getpid()} {started.pid} {away.pid}")
os.rename("part", "pids")
time.sleep(60)
"""


def is_alive(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize(
    ("sent", "code"),
    [(signal.SIGINT, 130), (signal.SIGTERM, 143), (None, 3)],
    ids=["SIGINT", "SIGTERM", "timeout"],
)
def test_no_process_outlives_the_check(sent: signal.Signals | None, code: int) -> None:
    Path("endless.py").write_text(KERNELS + ENDLESS)
    Path("other.py").write_text(KERNELS + "launch(1)\n")
    timeout = ["--timeout=8"] if sent is None else []
    words = ["check", "--format=json", "--jobs=1", *timeout, "endless.py", "other.py"]
    command = [sys.executable, "-m", "triton_ascend_compat", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as tool:
        limit = time.monotonic() + 60
        while sent is not None and not Path("pids").exists() and time.monotonic() < limit:
            time.sleep(0.05)
        if sent is not None:
            tool.send_signal(sent)
        stdout, stderr = tool.communicate(timeout=90)
    assert tool.returncode == code, stderr
    first, *rest = json.loads(stdout)["targets"]
    assert kernels(first) == [("one", True)]
    assert first["failure"] == ("it was stopped" if sent is not None else "it did not end within 8 seconds")
    assert len(rest) == (sent is None)
    assert sent is None or f"{sent.name}: 0 of 2 targets done; 1 compiles of 1 kernels" in stderr
    assert not any(map(is_alive, Path("pids").read_text().split()))


def test_shards_make_one_report_again() -> None:
    for number, name in enumerate("abc"):
        Path(f"{name}.py").write_text(f"{KERNELS}two[(1,)](Y, {number})\n")
    files = []
    for shard in ("1/2", "2/2"):
        files.append(f"{shard[0]}.json")
        result = check("--format=json", f"--shard={shard}", f"--output={files[-1]}", "a.py", "b.py", "c.py")
        assert result.exit_code == 0, result.stderr
    merged = check("--merge", "--format=json", *files)
    assert merged.exit_code == 0, merged.stderr
    assert sorted(each["constexprs"]["N"] for each in compiles(merged)) == [0, 1, 2]
    Path("none.json").write_text('{"targets": [], "shard": null}')
    for wrong, why in (
        (files[:1], "shard 2/2 is missing"),
        ([*files, files[0]], "some are of the same shard"),
        (["none.json"], "has to tell of a target"),
    ):
        result = check("--merge", *wrong)
        assert (result.exit_code, why in result.stderr) == (2, True)


def test_where_a_script_ends_is_a_line_of_its_own() -> None:
    compile_ = "triton.compile(triton.compiler.ASTSource(one, {'y': '*fp32'}, {'N': 8}))\n"
    code, told = target(compile_)
    assert (code, told["stopped_at"]) == (1, f"{Path('script.py').resolve()}:{KERNELS.count(chr(10)) + 1}")
    code, told = target("launch(1)\nraise KeyboardInterrupt\n")
    assert told["failure"].startswith("KeyboardInterrupt at ")


def test_a_limit_of_specializations() -> None:
    body = "for kind in ('fp16', 'fp32'):\n    two[(1,)](Pointer(kind), 1)\n"
    assert target(body, "--max-specializations=2")[0] == 0
    assert target(body, "--max-specializations=1")[0] == 1


def test_what_a_target_prints_is_shown_and_kept() -> None:
    _, told = target("launch(1)\nos.system('echo by a program')\nprint('\\x1b[31mred')\n")
    assert told["output"].splitlines()[-2:] == ["by a program", "\x1b[31mred"]
    shown = check("script.py").stderr
    assert "| by a program" in shown
    assert "\x1b" not in shown


CONFIGS = """
configs = [triton.Config({"N": 1}, auto_blockify_size=size) for size in (2, 4, 8)]
never = triton.autotune(configs[2:], key=[])(two)
triton.autotune(configs[:2], key=[])(two)[(1,)](Y)
"""


def test_a_key_that_a_config_lost_counts_launched_or_not() -> None:
    code, told = target(CONFIGS)
    assert code == 0
    assert [[fate["value"] for fate in each["keys"]] for each in told["compiles"]] == [[2], [4]]
    assert [key["fate"]["value"] for key in told["config_keys"]] == [8]
    assert target(CONFIGS.replace("[2:]", "[1:2]").replace(", 8)", ")"), "--leaks=error")[0] == 1
    assert (
        target(CONFIGS.partition("triton.autotune(configs[:2]")[0] + "launch(1)\n", "--leaks=error")[0] == 1
    )
    shown = check("script.py").stdout
    assert "triton.Config at script.py:" in shown
    assert "not launched: auto_blockify_size=8: no option of this release, left out of the config" in shown


def test_records_that_are_gone_are_told() -> None:
    body = "import shutil\nlaunch(1)\nshutil.rmtree(os.path.dirname(os.environ[NAME].split('\\n')[4]))\n"
    Path("good.py").write_text(KERNELS + "launch(1)\n")
    Path("gone.py").write_text(KERNELS + f"NAME = {VARIABLE!r}\n" + body)
    result = check("--format=json", "--jobs=1", "gone.py", "good.py")
    gone, good = json.loads(result.stdout)["targets"]
    assert (result.exit_code, good["failure"], kernels(good)) == (3, None, [("one", True)])
    assert gone["failure"].startswith("what it recorded is gone")


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
@pytest.mark.parametrize("imports", ["import torch_npu, torch", "import torch", "import torch, torch_npu"])
def test_torch_has_the_device_at_once(imports: str) -> None:
    code, told = target(f"{imports}\nassert torch.npu.is_available()\nlaunch(1)\n")
    assert (code, told["failure"], told["output"]) == (0, None, "")


def test_a_report_in_json_is_json_for_others_too() -> None:
    target("two[(1,)](Y, float('inf'))\n")
    told = json.loads(check("--format=json", "script.py").stdout, parse_constant=pytest.fail)
    assert told["targets"][0]["compiles"][0]["constexprs"] == {"N": "inf"}


def test_a_launcher_takes_no_float_for_a_grid() -> None:
    code, told = target("one[(8 / 4,)](Y, 1)\n")
    assert (code, "'float' object cannot be interpreted as an integer" in told["failure"]) == (3, True)


def test_an_error_is_told_in_its_own_words_and_in_one_line() -> None:
    body = 'tl.static_assert(False, "an error: in\\ntwo lines")'
    code, told = target(f"@triton.jit\ndef k(y):\n    {body}\nk[(1,)](Y)\n")
    assert (code, told["compiles"][0]["error"]) == (1, "an error: in two lines")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("full", [{"stdout"}, {"stderr"}, {"stdout", "stderr"}])
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_report_that_cannot_be_written_is_no_kernel_s_failure(
    full: set[str], unbuffered: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    Path("script.py").write_text(KERNELS + "launch(1)\n")
    command = [sys.executable, "-m", "triton_ascend_compat", "check", "script.py"]
    with Path("/dev/full").open("w") as disk:
        streams: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        done = subprocess.run(command, text=True, check=False, **{**streams, **dict.fromkeys(full, disk)})
    assert (done.returncode, "Traceback" in str(done.stderr)) == (2, False)


GLOBALS = """
import conf
from conf import NAMED

class Odd:
    __str__ = __repr__ = None

class Proxy:
    def __getattr__(self, name):
        raise RuntimeError(name)

ODD, KIND = Odd(), tl.{2}
store = Proxy()  # of the name of an attribute that kernels read
OWN = tl.constexpr({0})
DEFAULT: tl.constexpr = {1}

@triton.jit
def called(y, D: tl.constexpr = DEFAULT):
    tl.static_assert(OWN + conf.ATTRIBUTE + NAMED + D < 8, "too much")
    tl.static_assert(KIND == tl.float32)
    tl.store(y, 1)
    if OWN > 9:
        tl.store(y, ODD)

@triton.jit
def calls(y):
    called(y)

calls[(1,)](Y)
"""


def test_a_global_that_a_kernel_reads_is_part_of_its_key() -> None:
    for code, values in ((0, [1] * 4), *((1, [8 * (n == at) for n in range(4)]) for at in range(5))):
        own, default, attribute, named = values
        kind = "float32" if any(values) else "float16"
        size = "#" * (attribute + 2 * named)  # by which Python tells files of one second
        Path("conf.py").write_text(
            f"import triton.language as tl {size}\n"
            f"ATTRIBUTE, NAMED = tl.constexpr({attribute}), tl.constexpr({named})\n"
        )
        assert target(GLOBALS.format(own, default, kind))[0] == code, values
    target(GLOBALS.format(1, 1, "float32").replace("NAMED +", ""))
    assert target(GLOBALS.format(1, 1, "float32").replace("NAMED +", ""))[1]["compiles"][0]["cached"]
