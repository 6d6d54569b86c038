"""Create the animation of the labelling page in the README, docs/images/label.webp, in a real browser.

    python docs/label_animation.py

Needs Chromium and Pillow. scikit-learn's 1,797 handwritten digits are labelled from the beginning, by keys and a
lasso. The labels are the true ones; the map, the questions and the accuracy are those of the page.
"""

from __future__ import annotations

import io
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits

import labelfold

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "tests"))

from browser import SOFTWARE_GL, Browser  # noqa: E402

WIDTH, HEIGHT = 1040, 640
ANSWERS = 30
CAPTION = "document.querySelector('.ask').dataset.row"


class Film:
    """Pictures of a page, each with its duration."""

    def __init__(self, browser: Browser) -> None:
        self.browser = browser
        self.frames: list[Image.Image] = []
        self.lengths: list[int] = []

    def shoot(self, milliseconds: int) -> None:
        """Take a picture."""
        with Image.open(io.BytesIO(self.browser.shot())) as picture:
            self.frames.append(picture.convert("RGB"))
        self.lengths.append(milliseconds)

    def save(self, path: Path) -> None:
        """Write the animation."""
        first, *others = self.frames
        first.save(
            path,
            save_all=True,
            append_images=others,
            duration=self.lengths,
            loop=0,
            quality=55,
            method=4,
            minimize_size=True,
        )


def answer(browser: Browser, film: Film, truth: list[str], pictures: int) -> None:
    """Answer the question by its key, or by the name of a new class."""
    row = browser.run("labelfoldMap.marks.question")
    browser.wait(f"{CAPTION} === '{row}'")
    film.shoot(120)
    names = browser.run("[...document.querySelectorAll('.class .name')].map((e) => e.textContent)")
    if truth[row] in names:
        browser.press(truth[row])
    else:
        browser.press("n")
        browser.type(truth[row])
        browser.press("Enter")
    browser.wait(f"labelfoldMap.marks.question !== {row}")
    browser.wait("!document.querySelector('.busy.on')")
    for _ in range(pictures):
        film.shoot(70)


def lasso(browser: Browser, film: Film, truth: list[str]) -> None:
    """Draw a lasso around the rows predicted as zero, and label them together."""
    x, y = browser.run(
        "(() => { const b = document.querySelector('#map').getBoundingClientRect(); return [b.x, b.y]; })()"
    )
    places = np.array(browser.run(f"[...Array({len(truth)}).keys()].map((i) => labelfoldMap.place(i))"))
    zeros = places[np.array(truth) == "0"]
    middle = np.median(zeros, axis=0)
    near = zeros[np.linalg.norm(zeros - middle, axis=1) < 90]
    reach = 1.15 * np.linalg.norm(near - middle, axis=1).max() + 6
    turn = np.linspace(0, 2 * np.pi, 25)
    line = np.stack([x + middle[0] + reach * np.cos(turn), y + middle[1] + reach * np.sin(turn)], axis=1)
    browser.mouse("mousePressed", *line[0], shift=True)
    for i, point in enumerate(line[1:]):
        browser.mouse("mouseMoved", *point, shift=True)
        if i % 5 == 4:
            film.shoot(90)
    browser.mouse("mouseReleased", *line[-1], shift=True)
    browser.wait("document.querySelector('.sums')")
    film.shoot(1200)
    browser.press("0")
    browser.wait("!labelfoldQueue.value.length")
    for _ in range(6):
        film.shoot(90)


def main() -> None:
    """Label, and record the animation."""
    X, y = load_digits(return_X_y=True)
    truth = [str(value) for value in y]
    with tempfile.TemporaryDirectory() as folder:
        names = [f"digit {i}" for i in range(len(X))]
        page = labelfold.label(
            X,
            ids=names,
            file=Path(folder) / "digits.labels.csv",
            target="digit",
            name="digits",
            image_shape=(8, 8),
            who="ada",
        )
        browser = Browser(Path(folder) / "profile", flags=SOFTWARE_GL)
        browser.look(WIDTH, HEIGHT)
        browser.open(page.url)
        browser.wait("!document.querySelector('.busy.on')", 60)
        time.sleep(0.5)
        film = Film(browser)
        film.shoot(900)
        for i in range(ANSWERS):
            answer(browser, film, truth, 2 if i < 12 or i % 3 else 4)
        time.sleep(0.5)
        film.shoot(700)
        lasso(browser, film, truth)
        time.sleep(0.6)
        film.shoot(2000)
        browser.close()
        page.close()
    path = HERE / "images" / "label.webp"
    film.save(path)
    size = path.stat().st_size / 1e6
    print(f"{path.name}: {len(film.frames)} pictures, {sum(film.lengths) / 1000:.1f} s, {size:.2f} MB")


if __name__ == "__main__":
    main()
