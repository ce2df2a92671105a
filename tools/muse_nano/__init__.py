"""Makes muse-nano, the tiny test model of Muse Glimmer's architecture. Needs torch; README.md tells the rest."""
