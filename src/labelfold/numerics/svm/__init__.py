"""Support vector machines with warm start: linear, on a kernel matrix, and hinge losses row by row."""
