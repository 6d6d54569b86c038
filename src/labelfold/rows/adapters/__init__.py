"""One adapter a container: the only code that asks what container it holds."""
