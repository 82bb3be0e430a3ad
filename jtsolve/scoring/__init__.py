"""Local scores of data: counting, scores by name, tabulated or on demand."""
