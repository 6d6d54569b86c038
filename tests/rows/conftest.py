"""The contract of rows is tested over every container there is."""

from __future__ import annotations

import pytest

from containers import Container, params


@pytest.fixture(params=params())
def container(request, tmp_path) -> Container:
    """Every container in turn: ``container.make(X)`` holds a dense X in it."""
    return request.param.within(tmp_path)
