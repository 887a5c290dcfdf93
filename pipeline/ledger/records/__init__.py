"""From the bytes of a file to rows: records, their ordinals, and the rows they make."""
