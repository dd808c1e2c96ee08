"""What the offline mode records of a compile."""

from __future__ import annotations

import contextlib
import json
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest
import triton
from triton.backends.compiler import GPUTarget

import triton_ascend_compat
from tests.offline.kernels import add, broken, calls_broken, source
from triton_ascend_compat.decision.plan import Outcome
from triton_ascend_compat.errors import AbsentOptionWarning
from triton_ascend_compat.generations import backend_namespace
from triton_ascend_compat.offline import CompileRecord, Overflow, offline
from triton_ascend_compat.offline.backend import backend_class
from triton_ascend_compat.offline.records import one_line
from triton_ascend_compat.telling import tell


def only_record(options: Any = None, fn: Any = add, raises: Any = (), **constants: Any) -> CompileRecord:
    with offline() as session, contextlib.suppress(raises):
        triton.compile(source(fn, **constants), target=session.target, options=options)
    assert len(session.records) == 1
    return session.records[0]


def test_a_compile_that_ends_well() -> None:
    record = only_record({"multibuffer": False})
    assert record.ok
    assert record.kernel == "add"
    assert record.location is not None
    assert record.location.endswith(f"kernels.py:{add.starting_line_number}")
    assert record.chip == "Ascend910B2"
    assert record.constexprs == {"XBLOCK": 256}
    assert record.asked == record.delivered == {"multibuffer": False}
    assert [stage.name for stage in record.stages] == ["ttir", "ttadapter", "npubin"]
    assert 0 < record.tool_milliseconds < sum(stage.milliseconds for stage in record.stages)
    assert sum(stage.milliseconds for stage in record.stages) < record.milliseconds
    assert record.hash
    assert not record.cached


def test_an_option_that_the_backend_drops_without_a_word() -> None:
    record = only_record({"waves_per_eu": 2, "num_warps": 8})
    assert record.dropped == ("waves_per_eu",)
    assert record.delivered == {"num_warps": 8}


def test_an_error_of_the_code_generator() -> None:
    record = only_record(fn=broken, raises=Exception)
    assert record.error is not None
    assert "undefined_name" in record.error
    assert "\n" not in record.error
    assert record.error_type == "CompilationError"
    assert record.error_location is not None
    file, _, line = record.error_location.rpartition(":")
    assert "undefined_name" in Path(file).read_text().splitlines()[int(line) - 1]
    assert record.stages == ()
    assert record.stage_reached == "-"


def test_an_error_inside_a_called_function_is_told_by_its_cause() -> None:
    record = only_record(fn=calls_broken, raises=Exception)
    assert record.error == "NameError('undefined_name is not defined')"
    file, _, line = str(record.error_location).rpartition(":")
    assert "helper(x)" in Path(file).read_text().splitlines()[int(line) - 1]


def test_without_the_shim_a_leak_is_the_error_that_users_report() -> None:
    record = only_record(raises=ValueError, multibuffer=False)
    assert record.error == "'multibuffer' is not in list"
    assert record.error_type == "ValueError"


@pytest.mark.parametrize("enabled_first", [True, False])
def test_keys_that_the_shim_moves_ignores_or_refuses(enabled_first: bool) -> None:
    """Whichever of the shim and the offline mode comes first wraps below the other."""
    tell.forget_warnings()
    with contextlib.ExitStack() as stack:
        if enabled_first:
            stack.enter_context(enabled_shim())
        session = stack.enter_context(offline())
        if not enabled_first:
            stack.enter_context(enabled_shim())
        leaky = source(multibuffer=False, auto_blockify_size=2)
        with pytest.warns(AbsentOptionWarning, match="auto_blockify_size"):
            triton.compile(leaky, target=session.target)
        with pytest.raises(triton_ascend_compat.CompileOptionError, match="multibufer"):
            triton.compile(source(multibufer=False), target=session.target)
        triton.compile(source(), target=session.target)
    delivered, refused, clean = session.records
    assert delivered.ok
    assert delivered.delivered == {"multibuffer": False}
    assert [(key.key, key.outcome) for key in delivered.keys] == [
        ("multibuffer", Outcome.DELIVERED),
        ("auto_blockify_size", Outcome.IGNORED),
    ]
    assert not refused.ok
    assert "multibufer" in str(refused.error)
    assert [key.outcome for key in refused.keys] == [Outcome.REFUSED]
    assert clean.keys == ()


@contextlib.contextmanager
def enabled_shim() -> Any:
    triton_ascend_compat.enable()
    yield
    triton_ascend_compat.disable()


def test_a_source_that_is_only_asked_for_its_options_is_no_compile() -> None:
    with offline() as session:
        source().parse_options()
    assert session.records == []


def test_other_targets_are_nobody_s_business() -> None:
    # 3.2.0 cannot compile for its cpu target: its linalg stage wants an option that only npu options have.
    with offline() as session, pytest.raises(Exception, match="enable_nd2nz_on_vector"):
        triton.compile(source(), target=GPUTarget("cpu", "", 0))
    assert session.records == []


def test_ir_is_kept_on_request() -> None:
    with offline(keep_ir=True) as session:
        triton.compile(source(), target=session.target)
        triton.compile(source(), target=session.target)
        with pytest.raises(Exception, match="undefined_name"):
            triton.compile(source(broken), target=session.target)
    fresh, cached, failed = session.records
    assert "tt.func public @add" in fresh.ir["ttir"]
    assert "func.func @add" in fresh.ir["ttadapter"]
    assert cached.cached
    assert cached.ir == fresh.ir
    assert failed.ir == {}
    assert only_record().ir == {}


def test_records_are_told_at_once() -> None:
    told: list[CompileRecord] = []
    with offline(on_record=told.append) as session:
        triton.compile(source(), target=session.target)
        assert told == session.records
        assert len(told) == 1


def test_threads_do_not_mix_up_their_records() -> None:
    blocks = [16 << power for power in range(8)]
    with offline() as session:
        threads = [
            threading.Thread(
                target=lambda block=block: triton.compile(
                    source(XBLOCK=block), target=session.target, options={"set_workspace_multibuffer": block}
                )
            )
            for block in blocks
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    found = {r.constexprs["XBLOCK"]: r.delivered["set_workspace_multibuffer"] for r in session.records}
    assert found == {block: block for block in blocks}
    assert all([stage.name for stage in r.stages] == ["ttir", "ttadapter", "npubin"] for r in session.records)


def failing_adapter(monkeypatch: pytest.MonkeyPatch, returncode: int) -> list[Any]:
    """Let triton-adapter-opt fail; the list fills with its calls."""
    calls = []

    def run(command: Any, *args: Any, **kwargs: Any) -> Any:
        calls.append(command)
        raise subprocess.CalledProcessError(returncode, command, b"", b"kernel.mlir:1:1: error: no way\n")

    monkeypatch.setattr(subprocess, "run", run)
    return calls


def test_a_compiler_s_refusal_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = failing_adapter(monkeypatch, 1)
    first, second = (only_record(raises=Exception) for _ in range(2))
    assert len(calls) == 1
    assert first.error == second.error == "no way"
    assert first.error_type == second.error_type == "MLIRCompilationError"
    assert first.stage_reached == second.stage_reached == "ttir"


def test_a_refusal_is_forgotten_where_the_cache_is_not_to_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = failing_adapter(monkeypatch, 1)
    monkeypatch.setenv("TRITON_ALWAYS_COMPILE", "1")
    for _ in range(2):
        assert not only_record(raises=Exception).ok
    assert len(calls) == 2


def test_a_compiler_that_was_killed_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = failing_adapter(monkeypatch, -9)
    for _ in range(2):
        assert not only_record(raises=Exception).ok
    assert len(calls) == 2


def test_records_survive_json() -> None:
    record = only_record({"multibuffer": False})
    assert CompileRecord.from_dict(json.loads(json.dumps(record.as_dict()))) == record


def test_the_backend_s_module_is_the_one_that_compiles() -> None:
    assert backend_class().__module__ == "ascend"
    assert backend_namespace(backend_class())["_parse_linalg_metadata"].__globals__ is backend_namespace(
        backend_class()
    )


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('loc("k.mlir":2:3): error: ub overflow, requires 20 bits while 15 bits available!', None),
        ("x:1:1: error: Failed to run pipeline\nx:2:2: error: no way\n[ERROR] end", "no way"),
        ("at 3:4:\n  y = x\n  ^\nname is not defined", "name is not defined"),
        (
            "PLEASE report\nStack dump:\n0.\tProgram arguments: /a/b/tool x.mlir -o y\n #0 0x01",
            "tool crashed",
        ),
        ("", ""),
    ],
)
def test_the_line_that_says_what_is_wrong(text: str, line: str | None) -> None:
    overflow = Overflow("UB", 20, 15)
    assert one_line(text) == (str(overflow) if line is None else line)
    assert Overflow.found_in(text) == (overflow if line is None else None)
