"""The bench that plans are run on."""

from tests.optimizer.bench import bench  # noqa: F401 - a fixture
