#!/usr/bin/env python3
"""Maps what independent cuts gain over joint ones, everything else allowed.

For each profile, a plan with joint and one with independent cuts is made for every
combination of link bandwidth, memory of a rank, micro-batches a step and ranks, with
replicas and recomputation allowed in both. The gain is joint over independent
bottleneck. Writes gains.csv (every plan's figures) and one picture per profile, and prints the
largest gains. Points already in gains.csv are not planned again.

usage: independent-cuts.py --sluice build/bin/sluice [--output docs/maps] [--profiles tests/data/pipedream/*.graph.txt]
"""

import argparse
import concurrent.futures
import csv
import itertools
import json
import pathlib
import subprocess
import sys
import tempfile

GBPS = [10, 100, 400, 1200]
MEMORY_GIB = [16, None]
MICROBATCHES = [4, 16, 64]
RANKS = [4, 8, 16]
COLUMNS = ["profile", "gbps", "memory_gib", "microbatches", "ranks", "cuts", "status", "bottleneck_s", "lower_bound_s",
           "step_s", "replicas", "forward_cuts", "backward_cuts", "recomputed_layers", "bound_by"]
KEYS = COLUMNS[:6]


def import_profile(sluice, source, folder):
    profile = folder / (source.name.split(".")[0] + ".h5")
    subprocess.run([sluice, "import", "pipedream", source, "-o", profile], check=True, capture_output=True)
    return profile


def plan(sluice, profile, folder, point, cuts, limit_s):
    """One row of gains.csv; a bottleneck of inf where nothing fits."""
    gbps, memory, microbatches, ranks = point
    row = dict(zip(KEYS, [profile.stem, gbps, memory or "unlimited", microbatches, ranks, cuts]))
    with tempfile.NamedTemporaryFile(dir=folder, suffix=".h5") as out:
        words = [sluice, "optimize", "--json", "--profile", profile, "--ranks", ranks, "--intra-gbps", gbps,
                 "--microbatches", microbatches, "--cuts", cuts, "--replicas", "any", "--recompute",
                 "--objective", "bottleneck", "--method", "dp", "--time-limit", limit_s, "-o", out.name]
        if memory:
            words += ["--memory-gib", memory]
        run = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    if run.returncode == 4:
        return row | {"status": "infeasible", "bottleneck_s": float("inf")}
    if run.returncode != 0:
        sys.exit(f"{' '.join(map(str, words))}\n{run.stderr}")
    figures = json.loads(run.stdout)
    return row | {column: figures[column] for column in COLUMNS if column not in KEYS}


def key(row):
    return tuple(str(row[column]) for column in KEYS)


def known_rows(path):
    if not path.exists():
        return {}
    with path.open() as file:
        return {key(row): row for row in csv.DictReader(file)}


def write_rows(path, rows):
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows[k] for k in sorted(rows))


def gain(rows, profile, point):
    """Joint over independent bottleneck; None where no independent plan fits."""
    bottlenecks = []
    for cuts in ("joint", "independent"):
        gbps, memory, microbatches, ranks = point
        row = rows[tuple(map(str, (profile, gbps, memory or "unlimited", microbatches, ranks, cuts)))]
        bottlenecks.append(float(row["bottleneck_s"]))
    joint, independent = bottlenecks
    return None if independent == float("inf") else joint / independent


def draw(rows, profile, path):
    import matplotlib
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(len(MEMORY_GIB), len(MICROBATCHES), figsize=(10, 6), sharex=True, sharey=True)
    for (i, memory), (j, microbatches) in itertools.product(enumerate(MEMORY_GIB), enumerate(MICROBATCHES)):
        gains = [[gain(rows, profile, (gbps, memory, microbatches, ranks)) for gbps in GBPS] for ranks in RANKS]
        panel = axes[i][j]
        shades = [[float("nan") if g is None else min(g, 1.5) for g in line] for line in gains]
        image = panel.imshow(shades, vmin=1, vmax=1.5, cmap="viridis", aspect="auto", origin="lower")
        for (y, line) in enumerate(gains):
            for (x, g) in enumerate(line):
                word = "none" if g is None else "fits" if g == float("inf") else f"{g:.2f}"
                panel.text(x, y, word, ha="center", va="center", fontsize=8,
                           color="black" if g and g > 1.3 else "grey" if g is None else "white")
        panel.set_xticks(range(len(GBPS)), GBPS)
        panel.set_yticks(range(len(RANKS)), RANKS)
        panel.set_title(f"M = {microbatches}, {f'{memory} GiB a rank' if memory else 'memory unlimited'}", fontsize=9)
    figure.supxlabel("link of a rank [Gb/s]")
    figure.supylabel("ranks")
    figure.suptitle(f"{profile}: joint over independent bottleneck, replicas and recomputation allowed in both")
    figure.colorbar(image, ax=axes, label="gain")
    figure.savefig(path, dpi=80)
    pyplot.close(figure)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sluice", default="build/bin/sluice")
    parser.add_argument("--output", type=pathlib.Path, default=pathlib.Path("docs/maps"))
    parser.add_argument("--profiles", type=pathlib.Path, nargs="+",
                        default=sorted(pathlib.Path("tests/data/pipedream").glob("*.graph.txt")))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--time-limit", type=float, default=4, help="seconds a plan")
    arguments = parser.parse_args()

    rows = known_rows(arguments.output / "gains.csv")
    points = list(itertools.product(GBPS, MEMORY_GIB, MICROBATCHES, RANKS))
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        profiles = [import_profile(arguments.sluice, source, folder) for source in arguments.profiles]
        for profile in profiles:
            wanted = [(point, cuts) for point in points for cuts in ("joint", "independent")
                      if tuple(map(str, (profile.stem, point[0], point[1] or "unlimited", *point[2:], cuts))) not in rows]
            print(f"{profile.stem}: {len(wanted)} plans to make", flush=True)
            with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
                for row in pool.map(lambda w: plan(arguments.sluice, profile, folder, *w, arguments.time_limit), wanted):
                    rows[key(row)] = row
            write_rows(arguments.output / "gains.csv", rows)
            draw(rows, profile.stem, arguments.output / f"{profile.stem}.png")

    gains = [(gain(rows, profile.stem, point), profile.stem, point) for profile in profiles for point in points]
    finite = sorted((g for g in gains if g[0] and g[0] != float("inf")), key=lambda g: -g[0])
    print("largest gains: joint / independent, profile, (Gb/s, GiB, M, ranks)")
    for g, profile, point in finite[:20]:
        print(f"{g:.3f}  {profile}  {point}")
    pays = sum(g[0] > 1.01 for g in finite)
    print(f"{pays} of {len(finite)} points gain more than 1 %; "
          f"{sum(g[0] == float('inf') for g in gains)} fit only with independent cuts")


if __name__ == "__main__":
    main()
