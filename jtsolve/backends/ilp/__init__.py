"""Integer linear programming with HiGHS or CBC."""
