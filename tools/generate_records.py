"""Writes src/ottla/metadata/records/ from the schemas inside Kafka's metadata jar.

    python tools/generate_records.py path/to/kafka-metadata-4.3.0.jar

One module a record type. Its newest version is the class that all code uses (`PartitionRecord`), with a default for
every field that older versions lack. Older versions are only a wire format (`older.PartitionRecordV0`), which the
codec turns into the newest one; they stand apart because a node of one's own never loads them, and a dataclass costs
a millisecond. The classes are what kio's readers and writers take.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TARGET = Path(__file__).resolve().parent.parent / "src" / "ottla" / "metadata" / "records"
FOLDER = "common/metadata/"
PYTHON_TYPES = {
    **dict.fromkeys(("int8", "int16", "int32", "int64", "uint16"), "int"),
    "float64": "float",
    "string": "str",
    "bytes": "bytes",
    "bool": "bool",
    "uuid": "UUID",
}
IMPLICIT_DEFAULTS = {"int": "0", "float": "0.0", "str": '""', "bytes": 'b""', "bool": "False", "UUID": "NO_UUID"}


def snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


@dataclass(frozen=True)
class Versions:
    low: int
    high: int

    @classmethod
    def parse(cls, text: str, highest: int) -> Versions:
        if text in ("", "none"):
            return cls(1, 0)
        low, _, high = text.removesuffix("+").partition("-")
        return cls(int(low), highest if text.endswith("+") else int(high or low))

    def __contains__(self, version: int) -> bool:
        return self.low <= version <= self.high


class Schema:
    def __init__(self, text: str) -> None:
        self.json: dict[str, Any] = json.loads(re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE))
        self.name: str = self.json["name"]
        self.api_key: int = self.json["apiKey"]
        self.newest = int(self.json["validVersions"].split("-")[-1])
        self.oldest = int(self.json["validVersions"].split("-")[0])
        if self.json["flexibleVersions"] != f"{self.oldest}+":
            raise SystemExit(
                f"{self.name}: versions that are not flexible need a __flexible__ for each; extend this tool"
            )

    @property
    def module(self) -> str:
        return snake(self.name)

    def class_name(self, version: int) -> str:
        return self.name if version == self.newest else f"{self.name}V{version}"

    def render(self, kafka_version: str) -> str:
        body: list[str] = []
        for field in self._structs:
            body += self._nested(field)
        body += self._class(self.name, self.json["fields"], self.newest, "data")
        body += ["", "", f"RECORD: Final = {self.name}", ""]
        return self._module(body, self.name, kafka_version, [])

    def render_older(self, kafka_version: str) -> str:
        body: list[str] = []
        for version in range(self.newest - 1, self.oldest - 1, -1):
            body += self._class(self.class_name(version), self.json["fields"], version, "data")
        table = ", ".join(f"{v}: {self.class_name(v)}" for v in range(self.oldest, self.newest))
        body += ["", "", f"VERSIONS: Final[dict[int, type[MetadataRecord]]] = {{{table}}}", ""]
        structs = [field["type"].removeprefix("[]") for field in self._structs]
        more = [f"from ottla.metadata.records.{self.module} import {', '.join(structs)}"] if structs else []
        return self._module(body, f"Older versions of {self.name}", kafka_version, more)

    def _module(self, body: list[str], what: str, kafka_version: str, more: list[str]) -> str:
        text = "\n".join(body)
        imports = [
            "from dataclasses import dataclass, field" if "field(" in text else "from dataclasses import dataclass"
        ]
        imports.append("from typing import ClassVar, Final")
        if "UUID" in text:
            imports.append("from uuid import UUID")
        head = f'"""{what}: generated from Apache Kafka {kafka_version} by tools/generate_records.py."""'
        base = ["MetadataRecord", *(["NO_UUID"] if "NO_UUID" in text else [])]
        ours = [f"from ottla.metadata.records.base import {', '.join(base)}", *more]
        return "\n".join([head, "", *imports, "", "from kio.static.constants import EntityType", "", *ours, text])

    @property
    def _structs(self) -> list[dict[str, Any]]:
        return [field for field in self.json["fields"] if "fields" in field]

    def _nested(self, field: dict[str, Any]) -> list[str]:
        for inner in field["fields"]:
            if inner["versions"] != f"{self.oldest}+" or "fields" in inner:
                raise SystemExit(
                    f"{self.name}.{field['name']}: a struct that changes with the version; extend this tool"
                )
        return self._class(field["type"].removeprefix("[]"), field["fields"], self.newest, "nested")

    def _class(self, name: str, fields: list[dict[str, Any]], version: int, kind: str) -> list[str]:
        base = "(MetadataRecord)" if kind == "data" else ""
        lines = ["", "", "@dataclass(frozen=True, slots=True, kw_only=True)", f"class {name}{base}:"]
        if kind == "data":
            lines.append(f"    __api_key__: ClassVar[int] = {self.api_key}")
        lines.append(f"    __type__: ClassVar[EntityType] = EntityType.{kind}")
        lines.append(f"    __version__: ClassVar[int] = {version}")
        lines.append("    __flexible__: ClassVar[bool] = True")
        for field in fields:
            if version in Versions.parse(field["versions"], self.newest):
                lines += self._field(field, version)
        return lines

    def _field(self, field: dict[str, Any], version: int) -> list[str]:
        kafka_type = field["type"]
        is_array = kafka_type.startswith("[]")
        inner = kafka_type.removeprefix("[]")
        python = PYTHON_TYPES.get(inner, inner)
        nullable = version in Versions.parse(field.get("nullableVersions", ""), self.newest)
        tagged = version in Versions.parse(field.get("taggedVersions", ""), self.newest)
        annotation = python
        if is_array:  # kio gives None for the zero UUID, which in an array is a value like any other
            annotation = f"tuple[{'UUID | None' if python == 'UUID' else python}, ...]"
        if nullable:
            annotation += " | None"
        metadata = [f'"kafka_type": "{inner}"'] if inner in PYTHON_TYPES else []
        if tagged:
            metadata.append(f'"tag": {field["tag"]}')
        arguments = []
        default = self._default(field, python, is_array, nullable)
        if default is not None:
            arguments.append(f"default={default}")
        if metadata:
            arguments.append(f"metadata={{{', '.join(metadata)}}}")
        value = f" = field({', '.join(arguments)})" if arguments else ""
        return [f"    {snake(field['name'])}: {annotation}{value}"]

    def _default(self, field: dict[str, Any], python: str, is_array: bool, nullable: bool) -> str | None:
        if "default" in field:
            raw = str(field["default"])
            if raw == "null":
                return "None"
            if python == "bool":
                return raw.capitalize()
            return json.dumps(raw) if python == "str" else raw
        came_later = Versions.parse(field["versions"], self.newest).low > self.oldest
        if not (came_later or "tag" in field):
            return None
        if nullable:
            return "None"
        return "()" if is_array else IMPLICIT_DEFAULTS[python]


def index(schemas: list[Schema], kafka_version: str) -> str:
    lines = [
        f'"""Which module holds which record: generated by tools/generate_records.py, Apache Kafka {kafka_version}."""',
        "",
        "from typing import Final",
        "",
        "MODULES: Final[dict[int, str]] = {",
        *(f'    {s.api_key}: "ottla.metadata.records.{s.module}",' for s in sorted(schemas, key=lambda s: s.api_key)),
        "}",
        "",
    ]
    return "\n".join(lines)


def main() -> None:
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    jar = Path(sys.argv[1])
    found = re.search(r"(\d+\.\d+\.\d+)\.jar$", jar.name)
    kafka_version = found.group(1) if found else "of unknown version"
    with zipfile.ZipFile(jar) as archive:
        names = [name for name in archive.namelist() if name.startswith(FOLDER) and name.endswith(".json")]
        schemas = [Schema(archive.read(name).decode()) for name in sorted(names)]
    for schema in schemas:
        (TARGET / f"{schema.module}.py").write_text(schema.render(kafka_version))
        if schema.oldest < schema.newest:
            (TARGET / "older" / f"{schema.module}.py").write_text(schema.render_older(kafka_version))
    (TARGET / "index.py").write_text(index(schemas, kafka_version))
    subprocess.run(["ruff", "check", "-q", "--select", "I", "--fix", str(TARGET)], check=True)
    subprocess.run(["ruff", "format", "-q", str(TARGET)], check=True)
    print(f"{len(schemas)} record types of Kafka {kafka_version} in {TARGET}")


if __name__ == "__main__":
    main()
