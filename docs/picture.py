"""Make docs/images/demo.png, the picture in the README, from the report that `make demo` writes.

    python docs/picture.py demo/report.html

Needs Chromium. Sections that a picture has no room for are left out of it.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "tests"))

from browser import Browser  # noqa: E402

SHORTER = """
for (const section of document.querySelectorAll('section'))
  if (!['seconds', 'maps'].includes(section.getAttribute('aria-labelledby'))) section.remove();
for (const plot of document.querySelectorAll('.plot')) plot.style.height = '17rem';
dispatchEvent(new Event('resize'));
"""


def main(report: str) -> None:
    """Take the picture."""
    with tempfile.TemporaryDirectory() as profile:
        browser = Browser(Path(profile))
        browser.look(1000, 1400)
        browser.open(Path(report).resolve())
        browser.run(SHORTER)
        time.sleep(1)  # figures follow the new size
        browser.screenshot(HERE / "images" / "demo.png", "document.querySelector('main')")
        browser.close()


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "demo/report.html")
