"""Independent checks of results, rankings and certificates; no code shared with what makes them."""
