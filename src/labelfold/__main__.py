"""``python -m labelfold`` runs the ``labelfold`` command."""

from labelfold.app.commands import main

if __name__ == "__main__":
    raise SystemExit(main())
