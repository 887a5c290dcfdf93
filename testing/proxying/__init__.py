"""A proxy in front of a real server, which lets commands fail as a test asks and records them."""
