"""Turn rows into spans: which consumer held which entry from when to when."""
