"""The parts of `papers.py`: published cells beside ours, the pages, and their hand-written texts (NAME.toml)."""
