"""Support vector machines that can be warm-started: linear, on a kernel matrix, and hinge losses by rows."""
