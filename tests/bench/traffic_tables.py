#!/usr/bin/env python3
"""Turns what traffic_bench.sh measured into the tables of docs/traffic.md (between its markers) and a bar chart.

usage: traffic_tables.py FOLDER DOCUMENT CHART
"""

import collections
import csv
import pathlib
import statistics
import sys

BEGIN, END = "<!-- begin of what traffic_tables.py writes -->\n", "<!-- end -->\n"
UNAWARE = ("flat", "mpi")
COLUMNS = ["flat", "mpi", "hierarchical", "binomial", "chain", "tree", "scatter_allgather"]
CLOSE = 1.1


def read(path):
    with open(path) as file:
        return list(csv.DictReader(file))


def size(count):
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if count % unit == 0:
            return f"{count // unit} {name}"
    return f"{count} B"


def time(seconds):
    return f"{1e3 * seconds:.3g}" if seconds < 1 else f"{1e3 * seconds:.0f}"


def table(header, rows):
    lines = [header, ["---"] * len(header)] + rows
    return "".join(f"| {' | '.join(map(str, line))} |\n" for line in lines) + "\n"


class Cell:
    """One group, size and rate: a row of the CSV for each algorithm."""

    def __init__(self, rows):
        self.rate, self.placement, self.group = (rows[0][key] for key in ("rate", "placement", "group"))
        self.bytes = int(rows[0]["bytes"])
        self.measured = {row["algorithm"]: float(row["measured_s"]) for row in rows}
        self.predicted = {row["algorithm"]: float(row["predicted_s"]) for row in rows}
        self.chosen = next(row["algorithm"] for row in rows if row["chosen"] == "1")

    def best(self, algorithms):
        return min(self.measured[name] for name in algorithms)

    def loss(self, algorithms=None):
        """The chosen one's time over the best one's: of those that auto may choose, unless said otherwise."""
        return self.measured[self.chosen] / self.best(algorithms or [n for n in COLUMNS if n not in UNAWARE])

    def errors(self):
        return [abs(self.predicted[name] / self.measured[name] - 1) for name in COLUMNS]


def cells_of(rows):
    cells = collections.defaultdict(list)
    for row in rows:
        cells[row["rate"], row["placement"], row["group"], int(row["bytes"])].append(row)
    return [Cell(rows) for rows in cells.values()]


def share(values):
    return f"{sum(values)} of {len(values)}"


def summary(cells):
    rows = []
    for rate in dict.fromkeys(cell.rate for cell in cells):
        for name, low, high in (("to 64 KiB", 0, 1 << 16), ("from 256 KiB", 1 << 18, 1 << 62), ("all", 0, 1 << 62)):
            here = [cell for cell in cells if cell.rate == rate and low <= cell.bytes <= high]
            if not here:
                continue
            errors = [error for cell in here for error in cell.errors()]
            chosen = [abs(cell.predicted[cell.chosen] / cell.measured[cell.chosen] - 1) for cell in here]
            rows.append([rate, name, share([cell.loss() <= CLOSE for cell in here]),
                         share([cell.loss(COLUMNS) <= CLOSE for cell in here]),
                         f"{max(cell.loss() for cell in here):.2f}", f"{100 * statistics.median(errors):.0f} %",
                         f"{100 * statistics.median(chosen):.0f} %"])
    return table(["links", "sizes", "choice within 10 % of the best node-aware one", "of the best of all",
                  "at worst, times the best", "median error of the prediction", "of the chosen one's"], rows)


def details(cells, rate):
    rows = []
    for cell in (cell for cell in cells if cell.rate == rate):
        marked = [f"**{time(cell.measured[name])}**" if name == cell.chosen else time(cell.measured[name])
                  for name in COLUMNS]
        rows.append([cell.placement, cell.group, size(cell.bytes), *marked, time(cell.predicted[cell.chosen]),
                     f"{cell.loss():.2f}"])
    return table(["nodes", "group", "payload", *[name.replace("_", " + ") for name in COLUMNS], "predicted",
                  "over best"], rows)


def training(rows):
    steps, traffic = collections.defaultdict(list), {}
    for row in rows:
        key = row["rate"], row["plan"], row["way"]
        steps[key].append(float(row["step_s"]))
        traffic[key] = int(row["bytes_between_nodes"])
    lines = []
    for rate, plan in dict.fromkeys((key[0], key[1]) for key in steps):
        ways = [(rate, plan, way) for way in ("flat", "mpi", "chosen")]
        lines.append([rate, plan] + [f"{time(statistics.median(steps[way]))} ({traffic[way] / 1e6:.1f})" for way in ways])
    return table(["links", "plan", "flat", "mpi", "chosen"], lines)


def bytes_by_node(path, wanted="all-from-0"):
    """{algorithm: {node: (received, due)}} of the largest payload to `wanted`, its route's last segment size."""
    rows = [line.split() for line in open(path) if not line.startswith("#")]
    most = max(int(row[2]) for row in rows)
    found = collections.defaultdict(dict)
    for algorithm, _, count, group, node, received, sent, _ in rows:
        if group == wanted and int(count) == most:
            found[algorithm][node] = (int(received) / most, int(sent) / most)
    return found


def chart(found, path):
    """Bars: copies of the payload that entered and left each node."""
    nodes = sorted(next(iter(found.values())))
    shown = [name for name in COLUMNS if name in found]
    highest = max(max(pair) for by_node in found.values() for pair in by_node.values())
    width, top, left, bar, gap, height = 0, 46, 40, 9, 26, 180
    parts = []

    def y(copies):
        return top + height * (1 - copies / highest)

    position = left
    for name in shown:
        parts.append(f'<text x="{position + len(nodes) * bar}" y="{top + height + 32}" text-anchor="middle">'
                     f'{name.replace("_", " + ")}</text>')
        for node in nodes:
            for copies, colour in zip(found[name][node], ("#2a6f97", "#e09f3e")):
                parts.append(f'<rect x="{position}" y="{y(copies):.1f}" width="{bar - 1}" '
                             f'height="{top + height - y(copies):.1f}" fill="{colour}"/>')
                position += bar
            parts.append(f'<text x="{position - bar}" y="{top + height + 14}" text-anchor="middle" class="node">'
                         f'{node[-1]}</text>')
        position += gap
    width = position
    for copies in range(int(highest) + 1):
        parts.insert(0, f'<path d="M{left - 6} {y(copies):.1f}H{width}" stroke="#ccc"/><text x="{left - 10}" '
                        f'y="{y(copies) + 4:.1f}" text-anchor="end">{copies}</text>')
    legend = ('<rect x="40" y="12" width="10" height="10" fill="#2a6f97"/><text x="55" y="21">received</text>'
              '<rect x="125" y="12" width="10" height="10" fill="#e09f3e"/><text x="140" y="21">sent, in payloads, by '
              'each node\'s network interface</text>')
    path.write_text(f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{top + height + 44}" '
                    'font-family="sans-serif" font-size="12"><style>.node{font-size:9px;fill:#777}</style>'
                    f'<rect width="100%" height="100%" fill="#fff"/>{legend}{"".join(parts)}</svg>\n')


def main():
    folder, document, picture = map(pathlib.Path, sys.argv[1:4])
    cells = cells_of(read(folder / "multicasts.csv"))
    chart(bytes_by_node(folder / "bytes.txt"), picture)
    written = summary(cells) + "Training, median step [ms] (and MB between the nodes in a step):\n\n"
    written += training(read(folder / "training.csv"))
    for rate in dict.fromkeys(cell.rate for cell in cells):
        written += f"Multicasts at {rate} [ms], the model's choice in bold:\n\n{details(cells, rate)}"
    before, rest = document.read_text().split(BEGIN)
    document.write_text(before + BEGIN + "\n" + written + END + rest.split(END)[1])


if __name__ == "__main__":
    main()
