"""Golden vectors: messages of real runs as plain JSON files, for tests in any language.

``python -m harness.capture.golden CAPTURE… --into golden`` picks, out of captures of several
releases, one message of each form, says in which releases exactly these bytes are right, and
writes a file for each kind of message. ``docs/capture.md`` describes the files.

A vector that is there already keeps its bytes as long as it is right, so that a new release adds
vectors and changes none.
"""

from __future__ import annotations

import sys
from pathlib import Path

import click

from harness.capture import file as capture_file
from harness.capture.vector_choice import choose
from harness.capture.vectors import documents, load, text_of


@click.command()
@click.argument("captures", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option(
    "--into",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("golden"),
    show_default=True,
    help="Folder of the files.",
)
@click.option("--check", is_flag=True, help="Write nothing; end with 1 if a file would change.")
def main(captures: tuple[Path, ...], into: Path, check: bool) -> None:
    """Make golden vectors out of captures of several releases."""
    try:
        taken = [capture_file.read_file(path) for path in captures]
        existing = load(into) if into.is_dir() else []
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    files = {
        into / f"{kind}.json": text_of(document)
        for kind, document in documents(choose(taken, existing)).items()
    }
    stale = [
        path
        for path, text in files.items()
        if not path.is_file() or path.read_text(encoding="utf-8") != text
    ]
    gone = sorted(set(into.glob("*.json")) - set(files))
    if not check:
        into.mkdir(parents=True, exist_ok=True)
        for path in stale:
            path.write_text(files[path], encoding="utf-8")
        for path in gone:
            path.unlink()
    for path in (*stale, *gone):
        click.echo(f"{'would change' if check else 'changed'}: {path}")
    sys.exit(1 if check and (stale or gone) else 0)


if __name__ == "__main__":
    main()
