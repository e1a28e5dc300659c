"""Loads what all tests share, shared.py, into the processes that run tests.

The one of ``pytest -n`` that only hands tests out goes without: torch and the library take seconds to load.
"""


def pytest_configure(config):
    hands_out = config.getoption("numprocesses", None) and not hasattr(config, "workerinput")
    if not hands_out:
        config.pluginmanager.import_plugin("shared")
