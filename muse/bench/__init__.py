"""`muse bench`: measures speed and memory as ratios and percentiles within one run."""
