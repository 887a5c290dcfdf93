"""From rows to spans: which consumer held which entry from when to when."""
