"""Independent checks of results, rankings and certificates; they share no code with the producers."""
