"""Writes metrics.md from the metrics' declarations: `make docs`."""

from pathlib import Path

from acer.learner.metrics import METRICS

OVER = {"mean": "mean over the updates since the row before", "largest": "largest of the updates since the row before",
        "now": "as it stands"}  # fmt: skip


def text() -> str:
    lines = [
        "# Metrics",
        "",
        "After this page you can read every column of a run's `progress.csv`. TensorBoard, the report and the",
        "experiments have the same names.",
        "",
        "| column | is | a row has |",
        "|---|---|---|",
    ]
    for metric in METRICS.values():
        about = "; ".join(filter(None, (f"{metric.label}: {metric.about}", metric.advice)))
        lines.append(f"| `{metric.name}` | {about.replace('|', chr(92) + '|')} | {OVER[metric.over]} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    Path(__file__).with_name("metrics.md").write_text(text())
