"""Switching on and off: references taken earlier, other people's wrappers, failures half-way."""

from __future__ import annotations

import inspect
import logging
import threading

import pytest

triton = pytest.importorskip("triton")

# References taken before the shim is switched on, as frontends take them.
import triton.compiler.compiler as compiler_module  # noqa: E402
from triton.compiler import ASTSource, compile  # noqa: E402
from triton.compiler.code_generator import ast_to_ttir  # noqa: E402

import triton_ascend_compat  # noqa: E402
from tests.kernels import SIGNATURE, add_kernel  # noqa: E402
from triton_ascend_compat import generations, installer  # noqa: E402
from triton_ascend_compat import shim as shared  # noqa: E402
from triton_ascend_compat.errors import AbsentOptionWarning, CompatError  # noqa: E402
from triton_ascend_compat.startup import import_hook  # noqa: E402
from triton_ascend_compat.telling import tell  # noqa: E402

LEAKY = {"XBLOCK": 1024, "multibuffer": False}


def delivers(npu, source_class=ASTSource):
    """Whether a leaky source compiles with its option delivered; False on the reported error."""
    try:
        kernel = compile(source_class(add_kernel, SIGNATURE, LEAKY), target=npu.target)
    except ValueError as error:
        if type(error) is not ValueError:
            raise
        return False
    return kernel.metadata.multibuffer is False


def attributes():
    """Everything that the shim may replace, as it stands now."""
    return {
        **{name: vars(ASTSource).get(name) for name in ("__init__", "parse_options", "make_ir", "hash")},
        "compile": (triton.compile, triton.compiler.compile, compiler_module.compile),
        "ast_to_ttir": (compiler_module.ast_to_ttir, triton.compiler.code_generator.ast_to_ttir),
    }


@pytest.fixture(autouse=True)
def _leaves_triton_as_it_was(npu):
    before = attributes()
    yield
    triton_ascend_compat.disable()
    assert attributes() == before


def test_references_taken_before_are_covered(npu):
    assert not delivers(npu)
    triton_ascend_compat.enable()
    assert delivers(npu)
    triton_ascend_compat.disable()
    assert not delivers(npu)


def test_identity_and_signatures_stay(npu):
    before = attributes()
    wrapped = (ASTSource.__init__, ASTSource.parse_options, ast_to_ttir)
    signatures = [inspect.signature(function) for function in wrapped]
    class_signature = inspect.signature(ASTSource)
    triton_ascend_compat.enable()
    assert triton.compiler.ASTSource is ASTSource
    assert attributes()["compile"] == before["compile"]
    now = (ASTSource.__init__, ASTSource.parse_options, compiler_module.ast_to_ttir)
    assert [inspect.signature(function) for function in now] == signatures
    assert inspect.signature(ASTSource) == class_signature


def test_enabling_twice_is_once(npu):
    first = triton_ascend_compat.enable()
    here = attributes()
    assert triton_ascend_compat.enable() == first
    assert attributes() == here
    assert triton_ascend_compat.disable().active is False
    assert not delivers(npu)


def test_strictness_can_be_changed_while_on():
    assert triton_ascend_compat.enable().strict is False
    assert triton_ascend_compat.enable(strict=True).strict is True
    assert triton_ascend_compat.enable().strict is True


def test_strictness_comes_from_the_environment(monkeypatch):
    monkeypatch.setenv("TRITON_ASCEND_COMPAT_STRICT", "1")
    assert triton_ascend_compat.enable().strict is True


class TestSomebodyElseWraps:
    """A second patcher, in both orders."""

    @staticmethod
    def wrap(name, calls):
        inner = vars(ASTSource)[name]

        def theirs(self, *args, **kwargs):
            calls.append(name)
            return inner(self, *args, **kwargs)

        setattr(ASTSource, name, theirs)
        return inner, theirs

    @pytest.mark.parametrize("name", ["__init__", "parse_options"])
    def test_on_top_of_ours(self, npu, name, caplog):
        triton_ascend_compat.enable()
        calls = []
        inner, theirs = self.wrap(name, calls)
        try:
            assert delivers(npu)
            with caplog.at_level(logging.WARNING, logger="triton_ascend_compat"):
                status = triton_ascend_compat.disable()
            assert vars(ASTSource)[name] is theirs
            # Of `parse_options` there is no wrapper: a source carries its own.
            left = (f"ASTSource.{name}",) if name == "__init__" else ()
            assert status.wrapped == left
            assert all(label in status.reason and label in caplog.text for label in left)
            assert not delivers(npu)
            assert triton_ascend_compat.enable().active
            assert vars(ASTSource)[name] is theirs
            assert delivers(npu)
            assert calls
        finally:
            setattr(ASTSource, name, inner)

    @pytest.mark.parametrize("name", ["__init__", "parse_options"])
    def test_below_ours(self, npu, name):
        calls = []
        inner, theirs = self.wrap(name, calls)
        try:
            triton_ascend_compat.enable()
            assert delivers(npu)
            triton_ascend_compat.disable()
            assert vars(ASTSource)[name] is theirs
            assert not delivers(npu)
            assert calls
        finally:
            setattr(ASTSource, name, inner)

    @pytest.mark.parametrize("ours_first", [False, True])
    def test_the_lazy_make_ir_wrapper_of_later_backends(self, npu, fresh_cache, ours_first):
        """Simulated: triton-ascend 3.2.1 wraps `ASTSource.make_ir` inside the first compile, by a plain
        function of fixed arity."""
        fresh_cache("empty")  # only a cache miss makes IR
        original = vars(ASTSource)["make_ir"]
        calls = []

        def lazily():
            def patched(self, options, codegen_fns, module_map, context):
                calls.append(self)
                return original(self, options, codegen_fns, module_map, context)

            ASTSource.make_ir = patched

        try:
            if ours_first:
                triton_ascend_compat.enable()
                lazily()
            else:
                lazily()
                triton_ascend_compat.enable()
            kernel = compile(ASTSource(add_kernel, SIGNATURE, {**LEAKY, "num_stages": 7}), target=npu.target)
            assert kernel.metadata.num_stages == 7
            assert len(calls) == 1
        finally:
            ASTSource.make_ir = original


@pytest.mark.parametrize("failing", [0, 1, 2])
def test_a_failure_half_way_rolls_back(npu, monkeypatch, wrapping_fails_at, failing):
    before = attributes()
    wrapping_fails_at(failing)
    with pytest.raises(CompatError, match="injected"):
        triton_ascend_compat.enable()
    assert attributes() == before
    assert not triton_ascend_compat.status().active
    monkeypatch.undo()
    assert triton_ascend_compat.enable().active


@pytest.mark.parametrize("broken", ["signature", "method", "class"])
def test_an_unknown_shape_is_refused_and_named(monkeypatch, broken):
    if broken == "signature":
        monkeypatch.setattr(ASTSource, "__init__", lambda self, fn, specialization: None)
        expected = "ASTSource(fn, specialization)"
    elif broken == "method":
        monkeypatch.setattr(ASTSource, "parse_options", None)
        expected = "ASTSource.parse_options"
    else:
        monkeypatch.delattr(compiler_module, "ASTSource")
        expected = "triton.compiler.compiler.ASTSource"
    before = attributes()
    with pytest.raises(CompatError, match="expected") as caught:
        triton_ascend_compat.enable()
    assert expected in str(caught.value)
    assert attributes() == before
    status = triton_ascend_compat.status()
    assert not status.active
    assert expected in status.generation


def test_the_automatic_way_logs_one_line_instead(monkeypatch, caplog):
    monkeypatch.setattr(ASTSource, "parse_options", None)
    monkeypatch.setattr(shared, "switch", shared.Switch())
    import_hook.Hook("triton", installer.install_automatically).fire()
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith("not active: ")
    assert "ASTSource.parse_options" in line


def test_a_triton_that_delivers_by_itself_needs_no_shim(monkeypatch, npu):
    """Simulated: an upstream fix in `ASTSource` itself."""
    init, parse_options = ASTSource.__init__, ASTSource.parse_options

    def fixed_init(self, fn, signature, constants=None, attrs=None):
        leaked = {k: v for k, v in (constants or {}).items() if k not in fn.arg_names}
        init(self, fn, signature, {k: v for k, v in (constants or {}).items() if k not in leaked}, attrs)
        self.leaked = leaked

    with monkeypatch.context() as patched:
        patched.setattr(ASTSource, "__init__", fixed_init)
        patched.setattr(ASTSource, "parse_options", lambda self: {**parse_options(self), **self.leaked})
        before = attributes()
        triton_ascend_compat.disable()
        for status in (triton_ascend_compat.status(), triton_ascend_compat.enable()):
            assert (status.active, status.by, status.needed) == (True, "Triton itself", False)
            assert "not needed" in status.reason
            assert delivers(npu)
        tell.forget_warnings()
        # What it does not deliver, it would drop: an absent option is told of all the same.
        with pytest.warns(AbsentOptionWarning, match="auto_blockify_size"):
            compile(ASTSource(add_kernel, SIGNATURE, {**LEAKY, "auto_blockify_size": 2}), target=npu.target)
        triton_ascend_compat.disable()
        assert attributes() == before
    status = triton_ascend_compat.enable()
    assert (status.by, status.needed) == ("triton_ascend_compat", True)


class TestSubclasses:
    """Frontends derive from `ASTSource`; Gluon does so in Triton itself."""

    def test_plain(self, shim, npu):
        class Source(ASTSource):
            pass

        assert delivers(npu, Source)

    def test_with_options_of_its_own(self, shim, npu):
        class Source(ASTSource):
            def parse_options(self):
                return {"num_stages": 5}

        own = Source.parse_options
        kernel = compile(Source(add_kernel, SIGNATURE, LEAKY), target=npu.target)
        assert (kernel.metadata.num_stages, kernel.metadata.multibuffer) == (5, False)
        shim.disable()
        assert vars(Source)["parse_options"] is own

    def test_that_sets_its_constants_itself_meets_tritons_error(self, shim, npu):
        class Source(ASTSource):
            def __init__(self, fn, signature, constants):
                super().__init__(fn, signature, {})
                self.constants = constants

        with pytest.raises(ValueError, match="'multibuffer' is not in list"):
            compile(Source(add_kernel, SIGNATURE, LEAKY), target=npu.target)


def test_threads_deliver_each_its_own_value(shim, npu):
    wrong = []
    barrier = threading.Barrier(4)

    def work(number):
        barrier.wait()
        for stages in range(3):
            value = 10 * number + stages
            src = ASTSource(add_kernel, SIGNATURE, {**LEAKY, "num_stages": value})
            kernel = compile(src, target=npu.target)
            if kernel.metadata.num_stages != value or src.constants != {"XBLOCK": 1024}:
                wrong.append(value)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_absent_options_warn_once_under_threads(shim, npu, recwarn):
    import warnings

    warnings.simplefilter("always")
    sources = [ASTSource(add_kernel, SIGNATURE, {**LEAKY, "auto_blockify_size": 2}) for _ in range(8)]
    threads = [threading.Thread(target=src.parse_options) for src in sources]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(recwarn) == 1


def test_the_release_and_backend_are_those_that_compile(shim):
    status = shim.status()
    assert status.triton.startswith("triton-ascend ")
    backend = generations.npu_backend_class()
    assert status.backend == f"{backend.__module__}.{backend.__qualname__}"
    assert status.options > 0
    assert "ASTSource.__init__" in status.wrapped
    assert "ASTSource.parse_options" not in status.wrapped
