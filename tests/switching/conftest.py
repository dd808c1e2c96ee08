"""Prints what the suites counted at the end of the run, passed or not."""

from __future__ import annotations


def pytest_terminal_summary(terminalreporter):
    reports = terminalreporter.stats.get("passed", []) + terminalreporter.stats.get("failed", [])
    for report in reports:
        for name, value in report.user_properties:
            if name == "counts" and report.when == "call":
                terminalreporter.write_line(str(value))
