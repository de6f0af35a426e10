"""What is kept of a run: all raw figures as JSON, a table in Markdown, a plot."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from bench.bars import Direction, Verdict
from ottla.testing.apache_kafka import KAFKA_VERSION


def machine() -> dict[str, Any]:
    """What the figures depend on; nothing that names the machine."""
    return {
        "cpu": _line("/proc/cpuinfo", "model name") or platform.processor(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gb": round(int((_line("/proc/meminfo", "MemTotal") or "0 kB").split()[0]) / 1e6, 1),
        "system": f"{platform.system()} {platform.release()}",
    }


def versions() -> dict[str, str]:
    packages = ("ottla", "uvloop", "kio", "crc32c", "confluent-kafka")
    java = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False).stderr
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=False,
    ).stdout.strip()
    return {
        "apache kafka": KAFKA_VERSION,
        "java": java.splitlines()[0] if java else "unknown",
        "python": platform.python_version(),
        "commit": commit,
        **{name: metadata.version(name) for name in packages},
    }


def _line(file: str, name: str) -> str | None:
    for line in Path(file).read_text().splitlines():
        head, _, value = line.partition(":")
        if head.strip() == name:
            return value.strip()
    return None


def number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _bar_text(verdict: Verdict) -> str:
    bar = verdict.bar
    if bar.limit is None:
        return ""
    return f"{bar.direction.value} {bar.limit:g}{' ' + bar.unit if bar.absolute else 'x'}"


def _cells(verdict: Verdict) -> list[str]:
    return [
        verdict.bar.name,
        verdict.bar.unit,
        number(verdict.kafka),
        number(verdict.ottla),
        "-" if verdict.ratio is None else f"{verdict.ratio:.2f}",
        _bar_text(verdict),
        verdict.word,
    ]


_HEAD = ["what", "unit", "Apache Kafka", "Ottla", "ratio", "bar", ""]


def table(verdicts: Sequence[Verdict]) -> str:
    """For a terminal."""
    rows = [_HEAD, *(_cells(verdict) for verdict in verdicts)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
    lines = []
    for row in rows:
        padded = enumerate(zip(row, widths, strict=True))
        cells = [cell.ljust(width) if i in (0, 1, 6) else cell.rjust(width) for i, (cell, width) in padded]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def _alone(verdicts: Sequence[Verdict], about: Mapping[str, Any]) -> str:
    """Where nothing of Apache Kafka's stands beside it."""
    rows = [["what", "unit", "Ottla", "bar", ""], ["---", "---", "---:", "---", "---"]]
    rows += [[cells[0], cells[1], cells[3], cells[5], cells[6]] for cells in map(_cells, verdicts)]
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    where = about["machine"]
    return (
        f"# {about['alone']}, {about['date']}\n\n"
        f"{where['cpu']}, {where['cores']} cores, {where['memory_gb']} GB.\n\n" + "\n".join(lines) + "\n"
    )


def markdown(verdicts: Sequence[Verdict], about: Mapping[str, Any]) -> str:
    if about.get("alone"):
        return _alone(verdicts, about)
    rows = [_HEAD, ["---", "---", "---:", "---:", "---:", "---", "---"], *(_cells(verdict) for verdict in verdicts)]
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    where, sides = about["machine"], about.get("sides", "One node")
    return (
        f"# Ottla beside Apache Kafka {about['versions']['apache kafka']}, {about['date']}\n\n"
        f"{where['cpu']}, {where['cores']} cores, {where['memory_gb']} GB. {sides} on each side, "
        "the same settings, acks=all, librdkafka on the same machine.\n"
        f"Medians of {about['rounds']} interleaved rounds after a warm-up by the same loads; "
        "the ratio is the median of the rounds' ratios.\n\n" + "\n".join(lines) + "\n"
    )


def plot(verdicts: Sequence[Verdict], path: Path, title: str) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    shown = [v for v in verdicts if v.ratio is not None and v.ratio > 0][::-1]
    if not shown:
        return
    colours = {"PASS": "#2a7f62", "MISS": "#c0392b", "info": "#8395a7", "not measured": "#8395a7"}
    figure, axes = pyplot.subplots(figsize=(11, 1.2 + 0.3 * len(shown)))
    for height, verdict in enumerate(shown):
        ratio = verdict.ratio or 0.0
        axes.barh(height, ratio - 1, left=1, color=colours[verdict.word], height=0.62)
        label = f"{number(verdict.kafka)} | {number(verdict.ottla)} {verdict.bar.unit}"
        axes.annotate(label, (1.005, height), xycoords=("axes fraction", "data"), va="center", fontsize=7)
        if verdict.bar.limit is not None and not verdict.bar.absolute:
            axes.plot([verdict.bar.limit] * 2, [height - 0.42, height + 0.42], color="black", linewidth=2)
    axes.axvline(1, color="#555555", linewidth=0.8)
    axes.set_xscale("log")
    ticks = [0.02, 0.05, 0.1, 0.25, 0.5, 1, 2, 4, 8]
    low, high = min(v.ratio or 1 for v in shown), max(v.ratio or 1 for v in shown)
    axes.set_xlim(min(low * 0.8, 0.5), max(high * 1.25, 2))
    axes.set_xticks(ticks, [f"{tick:g}x" for tick in ticks])
    axes.minorticks_off()
    axes.set_xlim(min(low * 0.8, 0.5), max(high * 1.25, 2))
    names = [f"{v.bar.name} ({'more' if v.bar.direction is Direction.AT_LEAST else 'less'} is better)" for v in shown]
    axes.set_yticks(range(len(shown)), names, fontsize=7)
    axes.set_title(f"{title}: Ottla's figure / Apache Kafka's; black: the bar; right: Kafka | Ottla", fontsize=9)
    figure.tight_layout()
    figure.savefig(path, dpi=110, bbox_inches="tight")
    pyplot.close(figure)


def conclude(
    stem: Path | None, about: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], verdicts: Sequence[Verdict]
) -> int:
    """Shows the table, keeps the figures where they are to be kept; the exit code."""
    print(table(verdicts))
    if stem is not None:
        save(stem, about, rows, verdicts)
        print(f"kept in {stem}.json and .md, and .png where there is a ratio to show")
    missed = sum(verdict.word == "MISS" for verdict in verdicts)
    print(f"{sum(verdict.word == 'PASS' for verdict in verdicts)} bars passed, {missed} missed")
    return 1 if missed else 0


def save(stem: Path, about: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], verdicts: Sequence[Verdict]) -> None:
    """stem.json, stem.md and stem.png."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    judged = [
        {
            "name": v.bar.name,
            "unit": v.bar.unit,
            "kafka": v.kafka,
            "ottla": v.ottla,
            "ratio": v.ratio,
            "bar": _bar_text(v),
            "verdict": v.word,
        }
        for v in verdicts
    ]
    text = json.dumps({**about, "bars": judged, "rows": list(rows)}, indent=1)
    stem.with_suffix(".json").write_text(text + "\n")
    stem.with_suffix(".md").write_text(markdown(verdicts, about))
    plot(verdicts, stem.with_suffix(".png"), f"{about['date']}, {about['machine']['cores']} cores")
