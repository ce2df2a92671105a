"""Stand-ins for the ExecuTorch artifacts of Muse Glimmer, with muse-nano's weights: `python -m tools.muse_nano.pte`."""
