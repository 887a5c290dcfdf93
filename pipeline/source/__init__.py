"""Shared by both modes of the source: options, offsets, losses, and entries as Arrow batches."""
