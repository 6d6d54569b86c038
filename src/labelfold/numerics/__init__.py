"""General solvers, independent of any method: they work on rows and small dense matrices."""
