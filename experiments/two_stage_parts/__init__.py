"""The parts of `two_stage.py`: sets, other solutions to compare with, runs, and the report."""
