"""Processes for isolated jobs (muse/isolated): started, limited in time and memory, killed and replaced."""
