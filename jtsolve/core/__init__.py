"""The problem, the junction tree, the backend protocol and the result: values."""
