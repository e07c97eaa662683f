"""What tests need of a server. Without it they are skipped, unless
HOSTLER_TEST_REQUIRED is set."""

import os
import unittest


def variable(name):
    """The value of an environment variable."""
    value = os.environ.get(name, "")
    if not value:
        if os.environ.get("HOSTLER_TEST_REQUIRED"):
            raise AssertionError(name + " is not set")
        raise unittest.SkipTest(name + " is not set")
    return value
