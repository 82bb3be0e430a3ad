"""The recurrence on a CUDA device."""
