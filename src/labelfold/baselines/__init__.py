"""Methods that the library's own are compared with."""
