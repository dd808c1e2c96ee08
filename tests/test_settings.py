"""The environment variables that are yes or no: what each value means, and what is told of the others."""

from __future__ import annotations

import pytest

from triton_ascend_compat import settings

READERS = {
    settings.STRICT_VARIABLE: settings.strict_from_environment,
    settings.SUMMARY_VARIABLE: settings.summary_from_environment,
}


@pytest.fixture(params=READERS)
def variable(request: pytest.FixtureRequest) -> str:
    settings._is_yes.cache_clear()
    name: str = request.param
    return name


@pytest.mark.parametrize("value", ["1", "true", "Yes", " ON "])
def test_yes(variable: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, value)
    assert READERS[variable]() is True


@pytest.mark.parametrize("value", ["", " ", "0", "False", "no", "off", None])
def test_no(
    variable: str, value: str | None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    if value is None:
        monkeypatch.delenv(variable, raising=False)
    else:
        monkeypatch.setenv(variable, value)
    assert READERS[variable]() is False
    assert caplog.messages == []


@pytest.mark.parametrize("value", ["treu", "onn", "2", "yes please", "x" * 5000])
def test_neither_is_no_and_one_warning_that_names_the_right_ones(
    variable: str, value: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(variable, value)
    assert [READERS[variable](), READERS[variable]()] == [False, False]
    (told,) = caplog.messages
    assert variable in told
    assert all(word in told for word in ("true", "on", "false", "off"))
    assert len(told) < 300
