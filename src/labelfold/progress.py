"""Progress of iterations, shown where the user asked for it."""

from __future__ import annotations

from typing import Any, Self

from tqdm.auto import tqdm


class Progress:
    """A bar over iterations that also shows how far from done they are; silent unless ``verbose``.

    Examples
    --------
    >>> with Progress("LDA", total=2, verbose=0) as progress:
    ...     progress(1, 0.5)
    ...     progress(2, 0.1)
    """

    def __init__(self, title: str, total: int, verbose: int) -> None:
        self._bar: Any = tqdm(total=total, desc=title, disable=not verbose, unit="it")

    def __call__(self, iteration: int, value: float) -> None:
        """Show that ``iteration`` is done and what it reached."""
        self._bar.update(iteration - self._bar.n)
        self._bar.set_postfix_str(f"{value:.2e}", refresh=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.close()
