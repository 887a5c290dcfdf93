"""What both modes of the source share: options, offsets, losses, and entries as Arrow batches."""
