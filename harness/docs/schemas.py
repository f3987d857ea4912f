"""Reference pages of files and documents, from their JSON Schemas."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from harness.baseline.schema import schema_text
from harness.docs.markdown import code, list_of, prose, table
from harness.reports.schema import schema_of
from harness.scenario.schema import scenario_schema

Schema = Mapping[str, Any]
_SECTION = re.compile(r"^(Attributes|Raises|Source|Returns):", re.MULTILINE)
_ATTRIBUTE = re.compile(r"^ {4}(\w+): (.*(?:\n {5,}.*|\n {8,}.*)*)", re.MULTILINE)
_KINDS = {
    "integer": "whole number",
    "number": "number",
    "string": "text",
    "boolean": "true or false",
    "null": "null",
    "object": "mapping",
    "array": "list",
}


class SchemaPages:
    """One schema as sections: each object in the order in which a reader comes to it.

    Args:
        schema: the document; definitions stand below ``$defs``.
        top: the path of the whole, such as ``a scenario``.
        before: word in front of the other headings, where a page has several schemas.
    """

    def __init__(self, schema: Schema, top: str, before: str = "") -> None:
        self._defs: Mapping[str, Schema] = schema.get("$defs", {})
        self._root = schema
        self._top = top
        self._before = before
        self.paths = self._walked()

    def _walked(self) -> dict[str, str]:
        """Where each definition is met first, depth first; ``""`` is the document itself."""
        paths: dict[str, str] = {}
        start = self._root.get("$ref", "").rpartition("/")[2]
        stack = [(start, "")]
        while stack:
            name, path = stack.pop()
            if name in paths:
                continue
            paths[name] = path
            below = [
                found
                for key, value in self._properties(name)
                for found in _refs(value, f"{path}.{key}" if path else key)
                if _is_object(self._defs[found[0]])
            ]
            stack += reversed(below)
        return paths

    def _object(self, name: str) -> Schema:
        return self._defs[name] if name else self._root

    def _properties(self, name: str) -> list[tuple[str, Schema]]:
        return list(self._object(name).get("properties", {}).items())

    def text(self) -> str:
        """All sections."""
        return "\n".join(self._section(name) for name in self.paths)

    def _section(self, name: str) -> str:
        docstring = self._object(name).get("description", "")
        attributes = attributes_of(docstring)
        required = set(self._object(name).get("required", ()))
        rows = [
            (
                f"`{key}`",
                self._kind(value),
                self._default(key, value, required),
                prose(value.get("description", "") or attributes.get(key, "")),
            )
            for key, value in self._properties(name)
        ]
        head = ("key", "value", "default", "meaning")
        if not any(row[3] for row in rows):
            head, rows = head[:3], [row[:3] for row in rows]  # type: ignore[assignment,misc]
        parts = [f"## {self.heading(name)}", *paragraphs_of(docstring)]
        if rows:
            parts.append(table(head, rows).rstrip())
        return "\n\n".join(parts) + "\n"

    def heading(self, name: str) -> str:
        """The title of a definition's section."""
        path = self.paths[name]
        return f"{self._before} `{path}`".lstrip() if path else self._top

    def _link(self, name: str) -> str:
        plain = self.heading(name).replace("`", "").lower()
        anchor = "".join(c for c in plain if c.isalnum() or c in " -_").replace(" ", "-")
        return f"[{self.heading(name)}](#{anchor})"

    def _default(self, key: str, value: Schema, required: set[str]) -> str:
        if key in required:
            return "required"
        if "default" not in value or value["default"] is None:
            return ""
        if isinstance(value["default"], dict) and value["default"]:
            return "as below"
        shown = json.dumps(value["default"], ensure_ascii=False)
        return f"`{shown}`" if shown not in ("[]", "{}", '""') else "empty"

    def _kind(self, value: Schema) -> str:
        """What a value may be, in words."""
        if "$ref" in value:
            name = value["$ref"].rpartition("/")[2]
            return self._link(name) if name in self.paths else self._kind(self._defs[name])
        if "enum" in value:
            return code(_word(item) for item in value["enum"])
        if "const" in value:
            return f"`{_word(value['const'])}`"
        for several in ("anyOf", "oneOf", "allOf"):
            if several in value:
                absent = "default" in value and value["default"] is None
                kinds = dict.fromkeys(
                    self._kind(option)
                    for option in value[several]
                    if not (absent and option.get("type") == "null")
                )
                return " or ".join(sorted(kinds, key=lambda kind: kind == "null"))
        kind = value.get("type")
        if kind == "array":
            return list_of(self._kind(value["items"])) if value.get("items") else "list"
        if kind == "object" and isinstance(value.get("additionalProperties"), dict):
            inner = self._kind(value["additionalProperties"])
            return f"mapping of {inner}" if inner != "anything" else "mapping"
        if isinstance(kind, list):
            return " or ".join(_KINDS[each] for each in kind)
        return (_KINDS[kind] if kind else "anything") + _bounds(value)


def _refs(value: Schema, path: str) -> Iterator[tuple[str, str]]:
    """Definitions inside a value, with the path at which each stands."""
    if "$ref" in value:
        yield value["$ref"].rpartition("/")[2], path
    for several in ("anyOf", "oneOf", "allOf"):
        for option in value.get(several, ()):
            yield from _refs(option, path)
    if isinstance(value.get("items"), dict):
        yield from _refs(value["items"], f"{path}[]")
    if isinstance(value.get("additionalProperties"), dict):
        yield from _refs(value["additionalProperties"], f"{path}.*")


def _is_object(value: Schema) -> bool:
    return "properties" in value


def _word(item: object) -> str:
    return item if isinstance(item, str) else json.dumps(item)


def _bounds(value: Schema) -> str:
    words = []
    for key, word in (
        ("minimum", "at least"),
        ("exclusiveMinimum", "more than"),
        ("maximum", "at most"),
        ("exclusiveMaximum", "less than"),
    ):
        if key in value:
            words.append(f"{word} {value[key]:,}")
    if value.get("minLength"):
        words.append("not empty")
    return f" ({', '.join(words)})" if words else ""


def paragraphs_of(docstring: str) -> list[str]:
    """The paragraphs before the first section."""
    head = _SECTION.split(docstring)[0]
    return [prose(part) for part in head.split("\n\n") if part.strip()]


def attributes_of(docstring: str) -> dict[str, str]:
    """What the section ``Attributes`` says of each key."""
    found = _SECTION.search(docstring)
    if found is None or found[1] != "Attributes":
        return {}
    return {match[1]: match[2] for match in _ATTRIBUTE.finditer(docstring, found.end())}


SCENARIO = "A scenario"


def scenario_keys() -> str:
    """Every key of a scenario file."""
    return SchemaPages(scenario_schema(), SCENARIO).text()


def baseline_keys() -> str:
    """Every key of a baseline file."""
    return SchemaPages(json.loads(schema_text()), "A baseline", "Baseline").text()


def document_keys(name: str) -> str:
    """Every key of a JSON document: ``run``, ``matrix`` or ``report``."""
    return SchemaPages(schema_of(f"{name}.schema.json"), f"A {name}", name.capitalize()).text()
