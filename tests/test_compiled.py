"""Loops that are compiled while the user waits say so, once; loops found on disk do not."""

import subprocess
import sys

CODE = """
import labelfold.utils._compiled as own

def twice(x):
    return 2 * x

twice.__module__ = "labelfold.made_up"
loop = own.numba.njit(twice)
print(loop(1.0), loop(2))
"""


def test_compiling_is_announced_once():
    found = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["2.0", "4"]
    assert found.stderr.count("labelfold compiles its loops the first time they are used") == 1


def test_the_loops_of_others_are_not_announced():
    code = CODE.replace("labelfold.made_up", "elsewhere")
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stderr == ""
