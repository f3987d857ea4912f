"""A hook of mkdocs: links that leave ``docs/``, pipes in code, and a script from elsewhere.

Pages are written for the source tree, where ``../client/errors.py`` is a link. The site holds the
pages alone, so there such a link becomes its text. A link to nothing stays one, and mkdocs warns.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

_PART = re.compile(
    r"(?P<fence>^```.*?^```$)"
    r"|(?P<code>`[^`\n]+`)"
    r"|\[(?P<text>(?:`[^`\n]*`|[^\]`])*)\]\((?P<target>[^)\s]+)\)",
    re.DOTALL | re.MULTILINE,
)
"""What a page is read as, from left to right: so a link inside code is none, and code in one is."""

_WORKER = re.compile(r'<script src="https://[^"]*iframe-worker[^"]*"></script>')
"""What the theme would load from elsewhere, so that a search works in pages opened as files."""
_OWN_WORKER = "assets/search-from-files.js"


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Give mkdocs a page whose links all stay on the site."""
    del files
    folder = Path(page.file.abs_src_path or "").parent
    return plain_pipes(inside(markdown, folder, Path(config.docs_dir)))


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """Let a page load our own script in place of the one from elsewhere."""
    del config
    return with_own_worker(output, "../" * page.url.count("/") + _OWN_WORKER)


def on_post_template(output_content: str, template_name: str, config: MkDocsConfig) -> str:
    """The same for the pages that no Markdown stands behind; they are found from the top."""
    del template_name, config
    return with_own_worker(output_content, f"/{_OWN_WORKER}")


def with_own_worker(html: str, place: str) -> str:
    """Name our script instead of the theme's."""
    return _WORKER.sub(f'<script src="{place}"></script>', html)


def inside(markdown: str, folder: Path, docs: Path) -> str:
    """Replace links to files outside ``docs`` that exist by their texts.

    Args:
        markdown: the page.
        folder: where the page lies.
        docs: the folder of all pages.
    """

    def kept(match: re.Match[str]) -> str:
        target = (match["target"] or "").partition("#")[0]
        if not target or "://" in target:
            return match[0]
        place = (folder / target).resolve()
        leaves = not place.is_relative_to(docs.resolve()) or place.is_dir()
        return match["text"] if leaves and place.exists() else match[0]

    return _PART.sub(kept, markdown)


def plain_pipes(markdown: str) -> str:
    r"""Write ``\|`` in code between backticks as a pipe.

    In a cell of a table GitHub wants the backslash. Markdown of the site would show it, and needs
    none: there a pipe in code separates nothing.
    """

    def plain(match: re.Match[str]) -> str:
        return match[0] if match["fence"] else match[0].replace(r"\|", "|")

    return _PART.sub(plain, markdown)
