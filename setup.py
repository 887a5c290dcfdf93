"""Find the packages: pyproject.toml cannot map discovered ones below a package that is the repository root."""

from setuptools import find_packages, setup

ROOMS = ("commands", "console", "pipeline", "protocol", "server", "storage", "testing")
FOUND = find_packages(include=[*ROOMS, *(f"{room}.*" for room in ROOMS)])

# setuptools leaves the file of this name out of the wheel; a build frontend would pass its own.
setup(script_name="setup.py", packages=["rillet", *(f"rillet.{name}" for name in FOUND)])
