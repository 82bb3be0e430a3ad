"""The compiled inner loops (numba): arrays in, arrays out, no domain types.

Every kernel releases the global lock, so that Python threads run kernels side by side and the main thread
stays free to take Ctrl-C; and every kernel is cached on disk, so that only the first run compiles.
"""
