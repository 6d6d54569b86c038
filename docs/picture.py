"""Create the pictures of the README from the report of `make demo`: docs/images/map.png and report.png.

    python docs/picture.py demo/report.html

Needs Chromium. The map is a picture of its own, since it comes first. The report is cropped.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "tests"))

from browser import Browser  # noqa: E402

MAP = """
for (const note of document.querySelectorAll('#map .note, #map .buttons')) note.remove();
document.querySelector('.canvas canvas').style.height = '26rem';
document.getElementById('map').scrollIntoView();
"""
SHORTER = """
for (const section of document.querySelectorAll('section'))
  if (!['maps', 'again', 'methods'].includes(section.getAttribute('aria-labelledby'))) section.remove();
document.querySelector('.canvas canvas').style.height = '20rem';
dispatchEvent(new Event('resize'));
"""


def main(report: str) -> None:
    """Take the pictures."""
    with tempfile.TemporaryDirectory() as profile:
        browser = Browser(Path(profile))
        for name, script, element, scale in (
            ("map.png", MAP, "document.getElementById('map')", 2),
            ("report.png", SHORTER, "document.querySelector('main')", 1),
        ):
            browser.look(1000, 1400, scale=scale)
            browser.open(Path(report).resolve())
            browser.run(script)
            time.sleep(1)  # figures adapt to the new size
            browser.screenshot(HERE / "images" / name, element)
        browser.close()


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "demo/report.html")
