"""The app: the command line, `compare` and its report, files. The library beside it needs nothing of this."""
