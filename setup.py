"""Find the packages, and make the links of README.md absolute for the page of the package.

pyproject.toml can do neither: it cannot map discovered packages below one that is the repository root, and a link into
the repository would need the address of the repository in every place.
"""

import re
import tomllib
from pathlib import Path

from setuptools import find_namespace_packages, setup

HERE = Path(__file__).parent
ROOMS = ("commands", "console", "pipeline", "protocol", "server", "storage", "testing")
# Folders of data count as packages, too: setuptools warns of missing ones.
FOUND = find_namespace_packages(
    include=[*ROOMS, *(f"{room}.*" for room in ROOMS)], exclude=["*.__pycache__", "*.__pycache__.*"]
)
LINK = re.compile(r"(!?)(\[[^\]]*\]\()(?!https?://)([^)]+\))")


def readme() -> str:
    """Return README.md with links that work outside the repository, too."""
    with (HERE / "pyproject.toml").open("rb") as file:
        home = tomllib.load(file)["project"]["urls"]["Repository"]
    text = (HERE / "README.md").read_text(encoding="utf-8")
    return LINK.sub(
        lambda link: f"{link[1]}{link[2]}{home}/{'raw' if link[1] else 'blob'}/main/{link[3]}", text
    )


# setuptools leaves the file of this name out of the wheel; a build frontend would pass its own.
setup(
    script_name="setup.py",
    packages=["rillet", *(f"rillet.{name}" for name in FOUND)],
    long_description=readme(),
    long_description_content_type="text/markdown",
)
