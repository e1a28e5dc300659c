"""MkDocs hooks: pages from files that stand outside docs/, so that relative links work on the site and on a code host.

Each file of the repository that a page links to becomes a page of the site: Markdown files as they are, notebooks with their
stored outputs, and other text files as a listing with line numbers. Links are rewritten to these pages.
"""

import json
import posixpath
import re
from pathlib import Path

from markdown.extensions import Extension
from markdown.preprocessors import Preprocessor
from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
LINK = re.compile(r"(?<=\]\()(?![a-z]+:)([^)\s#]+)((?:#[^)\s]*)?)(?=\))")
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
ROLE = re.compile(r":(?:attr|class|data|exc|func|meth|mod):(?=`)")
LEXERS = {
    ".py": "python",
    ".toml": "toml",
    ".yaml": "yaml",
    ".yml": "yaml",
    ".json": "json",
    ".cff": "yaml",
    "": "text",
}
PROSE = (".md", ".ipynb")
ALWAYS = [ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "notebooks").glob("*.ipynb"))]

origin: dict[str, Path] = {}  # the file of the repository behind each page from outside docs/, by its address


def address(path):
    """Return the address in the site's source of a file outside docs/."""
    inside = path.relative_to(ROOT)
    if path.suffix == ".md":
        return inside.as_posix()
    if path.suffix == ".ipynb":
        return inside.with_suffix(".md").as_posix()
    return f"source/{inside.as_posix()}.md"


def targets(text, path):
    """Return the files outside docs/ that a Markdown text at a path links to."""
    links = (match[1] for match in LINK.finditer(FENCE.sub("", text)))
    files = {(path.parent / link).resolve() for link in links}
    return {file for file in files if file.is_file() and ROOT in file.parents and DOCS not in file.parents}


def listing(path):
    """Return a text file as a page."""
    name = path.relative_to(ROOT).as_posix()
    lexer = LEXERS.get(path.suffix, "text")
    header = "---\nhide: [navigation, toc]\nsearch: { exclude: true }\n---\n"
    return f'{header}# {name}\n\n````{lexer} linenums="1"\n{path.read_text(encoding="utf-8").rstrip()}\n````\n'


def notebook(path):
    """Return a notebook as a page, with the outputs that it stores."""
    parts = []
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
        for output in cell.get("outputs", []):
            data = {kind: "".join(value) for kind, value in output.get("data", {}).items() if kind != "metadata"}
            if "image/png" in data:
                parts.append(f"![output](data:image/png;base64,{data['image/png'].strip()})")
            elif "text/html" in data:
                parts.append(re.sub(r"<style.*?</style>|\n\s*", "", data["text/html"], flags=re.DOTALL))
            else:
                parts.append(f"```text\n{data.get('text/plain', ''.join(output.get('text', ''))).rstrip()}\n```")
    return "\n\n".join(parts) + "\n"


class Roles(Extension):
    """Show names that docstrings mark with Sphinx roles, such as :func:`fit`, as code."""

    def extendMarkdown(self, md):
        roles = Preprocessor(md)
        roles.run = lambda lines: [ROLE.sub("", line) for line in lines]
        md.preprocessors.register(roles, "roles", 40)


def on_config(config):
    """Add the extension above to those of mkdocs.yml."""
    config.markdown_extensions.append(Roles())
    return config


def on_files(files, config):
    """Add a page for every file outside docs/ that a page links to, and for what those pages link to in turn."""
    origin.clear()
    waiting = set(ALWAYS)
    for file in files.documentation_pages():
        path = Path(file.abs_src_path)
        waiting |= targets(path.read_text(encoding="utf-8"), path)
    while waiting:
        path = waiting.pop()
        if address(path) in origin:
            continue
        origin[address(path)] = path
        if path.suffix in PROSE:
            content = notebook(path) if path.suffix == ".ipynb" else path.read_text(encoding="utf-8")
            waiting |= targets(content, path)
        else:
            content = listing(path)
        files.append(File.generated(config, address(path), content=content))
    return files


def on_page_markdown(markdown, page, config, files):
    """Rewrite links that leave docs/, and all links of pages from outside it, to addresses on the site."""
    uri = page.file.src_uri
    path = origin.get(uri, DOCS / uri)
    if path.suffix not in PROSE:  # a listing
        return markdown

    def rewrite(match):
        file = (path.parent / match[1]).resolve()
        if DOCS in file.parents:
            target = file.relative_to(DOCS).as_posix()
        elif file.is_file() and ROOT in file.parents:
            target = address(file)
        else:
            return match[0]  # a broken link: the strict build reports it
        return posixpath.relpath(target, posixpath.dirname(uri) or ".") + match[2]

    # Code keeps its brackets.
    pieces, end = [], 0
    for fence in FENCE.finditer(markdown):
        pieces += [LINK.sub(rewrite, markdown[end : fence.start()]), fence[0]]
        end = fence.end()
    return "".join([*pieces, LINK.sub(rewrite, markdown[end:])])
