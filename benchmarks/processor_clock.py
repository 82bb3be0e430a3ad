"""Runs the command `jtsolve` with a clock that counts the processor time of its process.

    python benchmarks/processor_clock.py solve DATA.csv --score bic --treewidth 2 --time-limit 60 --threads 1

Time limits and reported seconds are then processor seconds, the start of the program included, so that other
programs on the machine do not count. This is for one thread and backends without child processes.
"""

import sys
import time

_BETWEEN = 0.02
"""Seconds of wall clock between two readings, which take milliseconds on some virtual machines."""
_monotonic = time.monotonic
_clock = [time.monotonic(), time.process_time()]


def processor_seconds() -> float:
    """Returns the processor seconds since the start of the process."""
    if _monotonic() > _clock[0] + _BETWEEN:
        _clock[:] = _monotonic(), time.process_time()
    return _clock[1]


if __name__ == "__main__":
    # Before jtsolve is imported; modules of Python such as threading keep their clock.
    time.monotonic = time.perf_counter = processor_seconds

    from jtsolve.__main__ import main

    sys.argv[0] = "jtsolve"
    main()
