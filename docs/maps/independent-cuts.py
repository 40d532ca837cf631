#!/usr/bin/env python3
"""Maps what independent cuts gain over joint ones, everything else allowed.

For each profile, a plan with joint and one with independent cuts is made for every
combination of link bandwidth, memory of a rank, micro-batches a step and ranks, with
recomputation allowed in both, and replicas in both or in neither. The gain is joint over
independent: of the bottleneck, which both plans minimise, and of the simulated step. Writes
gains.csv (every plan's figures) and one picture per profile, and prints the largest gains.
Points already in gains.csv are not planned again.

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
REPLICAS = ["any", "1"]
COLUMNS = ["profile", "replicas_allowed", "gbps", "memory_gib", "microbatches", "ranks", "cuts", "status",
           "bottleneck_s", "lower_bound_s", "step_s", "replicas", "forward_cuts", "backward_cuts", "recomputed_layers", "bound_by"]
KEYS = COLUMNS[:7]
INFINITE = float("inf")


def import_profile(sluice, source, folder):
    profile = folder / (source.name.split(".")[0] + ".h5")
    subprocess.run([sluice, "import", "pipedream", source, "-o", profile], check=True, capture_output=True)
    return profile


def plan(sluice, profile, folder, point, cuts, limit_s):
    """One row of gains.csv; a bottleneck of inf where nothing fits."""
    replicas, gbps, memory, microbatches, ranks = point
    row = dict(zip(KEYS, key(profile.stem, point, cuts)))
    with tempfile.NamedTemporaryFile(dir=folder, suffix=".h5") as out:
        words = [sluice, "optimize", "--json", "--profile", profile, "--ranks", ranks, "--intra-gbps", gbps,
                 "--microbatches", microbatches, "--cuts", cuts, "--replicas", replicas, "--recompute",
                 "--objective", "bottleneck", "--method", "dp", "--time-limit", limit_s, "-o", out.name]
        if memory:
            words += ["--memory-gib", memory]
        run = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    if run.returncode == 4:
        return row | {"status": "infeasible", "bottleneck_s": INFINITE, "step_s": INFINITE}
    if run.returncode != 0:
        sys.exit(f"{' '.join(map(str, words))}\n{run.stderr}")
    figures = json.loads(run.stdout)
    return row | {column: str(figures[column]) for column in COLUMNS if column not in KEYS}


def key(profile, point, cuts):
    """What gains.csv calls a plan: the columns of KEYS."""
    replicas, gbps, memory, microbatches, ranks = point
    return tuple(map(str, (profile, replicas, gbps, memory or "unlimited", microbatches, ranks, cuts)))


def known_rows(path):
    if not path.exists():
        return {}
    with path.open() as file:
        return {tuple(row[column] for column in KEYS): row for row in csv.DictReader(file)}


def write_rows(path, rows):
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows[k] for k in sorted(rows))


def gain(rows, profile, point, figure):
    """Joint over independent; None where no independent plan fits, infinite where no joint one does."""
    joint, independent = (float(rows[key(profile, point, cuts)][figure]) for cuts in ("joint", "independent"))
    return None if independent == INFINITE else joint / independent


def is_proven(rows, profile, point):
    """Whether no joint plan is better than the one found."""
    return rows[key(profile, point, "joint")]["status"] in ("optimal", "infeasible")


def draw(rows, profile, path):
    """A panel for every (replicas, memory) and M, figures of bottleneck and step one below the other in each cell;
    a question mark where a better joint plan may exist."""
    import matplotlib
    matplotlib.use("Agg")
    from matplotlib import pyplot

    lines = list(itertools.product(REPLICAS, MEMORY_GIB))
    figure, axes = pyplot.subplots(len(lines), len(MICROBATCHES), figsize=(10, 11), sharex=True, sharey=True,
                                   layout="constrained")
    word = lambda g: "none" if g is None else "fits" if g == INFINITE else f"{g:.2f}"
    for (i, (replicas, memory)), (j, microbatches) in itertools.product(enumerate(lines), enumerate(MICROBATCHES)):
        panel = axes[i][j]
        shades = [[float("nan")] * len(GBPS) for _ in RANKS]
        for (y, ranks), (x, gbps) in itertools.product(enumerate(RANKS), enumerate(GBPS)):
            point = (replicas, gbps, memory, microbatches, ranks)
            bottleneck, step = (gain(rows, profile, point, column) for column in ("bottleneck_s", "step_s"))
            if bottleneck is not None:
                shades[y][x] = min(bottleneck, 1.5)
            doubt = "" if is_proven(rows, profile, point) else "?"
            text = word(bottleneck) if bottleneck in (None, INFINITE) else f"{word(bottleneck)}{doubt}\n({word(step)})"
            panel.text(x, y, text, ha="center", va="center", fontsize=7,
                       color="black" if bottleneck and bottleneck > 1.3 else "white" if bottleneck else "grey")
        image = panel.imshow(shades, vmin=1, vmax=1.5, cmap="viridis", aspect="auto", origin="lower")
        panel.set_xticks(range(len(GBPS)), GBPS)
        panel.set_yticks(range(len(RANKS)), RANKS)
        panel.set_title(f"M = {microbatches}, {f'{memory} GiB a rank' if memory else 'memory unlimited'}, "
                        f"{'replicas' if replicas == 'any' else 'no replicas'}", fontsize=8)
    figure.supxlabel("link of a rank [Gb/s]")
    figure.supylabel("ranks")
    figure.suptitle(f"{profile}: joint over independent cuts, bottleneck (and step of these plans)")
    figure.colorbar(image, ax=axes, label="gain in bottleneck", shrink=0.5)
    figure.savefig(path, dpi=75)
    pyplot.close(figure)


def print_largest(rows, points, figure):
    gains = sorted(((gain(rows, *p, figure) or 0, p) for p in points), reverse=True, key=lambda g: g[0])
    finite = [g for g in gains if 0 < g[0] < INFINITE and is_proven(rows, *g[1])]
    print(f"{figure}: joint / independent, profile, (replicas, Gb/s, GiB, M, ranks); joint proven the least")
    for g, (profile, point) in finite[:10]:
        print(f"{g:.3f}  {profile}  {point}")
    print(f"{sum(g[0] > 1.01 for g in finite)} of {len(finite)} points gain more than 1 %, "
          f"{sum(g[0] < 0.99 for g in finite)} lose more; "
          f"{sum(g[0] == INFINITE for g in gains)} fit only with independent cuts")


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
    points = list(itertools.product(REPLICAS, GBPS, MEMORY_GIB, MICROBATCHES, RANKS))
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        profiles = [import_profile(arguments.sluice, source, folder) for source in arguments.profiles]
        for profile in profiles:
            wanted = [(point, cuts) for point in points for cuts in ("joint", "independent")
                      if key(profile.stem, point, cuts) not in rows]
            print(f"{profile.stem}: {len(wanted)} plans to make", flush=True)
            with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
                for row in pool.map(lambda w: plan(arguments.sluice, profile, folder, *w, arguments.time_limit), wanted):
                    rows[tuple(row[column] for column in KEYS)] = row
            write_rows(arguments.output / "gains.csv", rows)
            draw(rows, profile.stem, arguments.output / f"{profile.stem}.png")

    mapped = [(profile.stem, point) for profile in profiles for point in points]
    for figure in ("bottleneck_s", "step_s"):
        print_largest(rows, mapped, figure)
    print_largest(rows, [p for p in mapped if p[1][0] == "any"], "bottleneck_s")


if __name__ == "__main__":
    main()
