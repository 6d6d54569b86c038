"""The report of a comparison: one HTML page that needs no network and no other file."""
