"""Write rows to streams: tasks encode them, and the driver publishes them once."""
