"""The parts of `two_stage.py`: sets, reference solutions, runs, and the report."""
