"""From rows to spans: who held which entry from when to when."""
