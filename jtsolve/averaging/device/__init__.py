"""The sums over decomposable graphs on a CUDA device."""
