"""The hook of mkdocs: the pages that are made from the program, and links that leave the site."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from mkdocs.structure.files import File

sys.path.append(str(Path(__file__).parent))

import commands_pages
import directives_page
import spark_options_page
import testing_page

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
LINK = re.compile(r"\]\(([^)\s:#]+)(#[^)\s]*)?\)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put the pages of commands where the navigation names them, and link to the home that pyproject.toml names."""
    config.nav = filled(config.nav)
    # Not as repo_url: the theme would ask api.github.com for its stars whenever a page is opened.
    config.extra["social"] = [{"icon": "fontawesome/brands/github", "link": home(), "name": "Repository"}]
    return config


def home() -> str:
    """Return the address of the repository."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        return str(tomllib.load(file)["project"]["urls"]["Repository"])


def filled(nav: Any) -> Any:
    """Return a part of the navigation with families in the place of ``COMMANDS``."""
    if isinstance(nav, list):
        return [filled(item) for item in nav]
    if isinstance(nav, dict):
        return {title: filled(item) for title, item in nav.items()}
    return commands_pages.navigation() if nav == "COMMANDS" else nav


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages."""
    pages = commands_pages.pages() | {
        "reference/directives.md": directives_page.page(),
        "reference/spark-options.md": spark_options_page.page(),
        "reference/testing.md": testing_page.page(),
    }
    for path, text in pages.items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let links to files of the repository that are no pages lead to the repository."""

    def replaced(link: re.Match[str]) -> str:
        path = Path(ROOT, "docs", PurePosixPath(page.file.src_uri).parent, link[1]).resolve()
        if path.is_relative_to(ROOT) and path.exists() and not path.is_relative_to(ROOT / "docs"):
            return f"]({home()}/blob/main/{path.relative_to(ROOT).as_posix()}{link[2] or ''})"
        return link[0]

    return LINK.sub(replaced, markdown)
