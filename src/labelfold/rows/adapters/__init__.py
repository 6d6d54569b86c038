"""One adapter for each container. No other code tests the type of the container."""
