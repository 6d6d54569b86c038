"""The app: command line, `compare` and its report, files. The library does not depend on it."""
