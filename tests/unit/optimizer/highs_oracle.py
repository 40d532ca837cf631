#!/usr/bin/env python3
"""Solves problems again with another solver (HiGHS, through SciPy) and another formulation, and compares.

Usage: highs_oracle.py PROGRAM, which prints problems with their optima (highs_problems.cpp).

For every order of the ranks in the pipeline, up to the numbers of those that share a link: whole columns
say where each cut lies (before[c][l][k]: layer l stands at a position <= k), and the bottleneck is minimised over
compute of each position and bytes over each border, both directions.
"""
import itertools
import json
import subprocess
import sys

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp


class Program:
    def __init__(self):
        self.upper, self.whole, self.rows, self.row_lower = [np.inf], [0], [], []
        self.time = 0  # the first column: the bottleneck

    def column(self, upper=1, whole=0):
        self.upper.append(upper)
        self.whole.append(whole)
        return len(self.upper) - 1

    def at_least(self, bound, terms):
        self.rows.append(terms)
        self.row_lower.append(bound)

    def least(self):
        matrix = np.zeros((len(self.rows), len(self.upper)))
        for row, terms in enumerate(self.rows):
            for column, factor in terms:
                matrix[row, column] += factor
        cost = np.zeros(len(self.upper))
        cost[self.time] = 1
        result = milp(cost, integrality=self.whole, bounds=Bounds(0, self.upper),
                      constraints=LinearConstraint(matrix, self.row_lower, np.inf), options={"mip_rel_gap": 0})
        assert result.status == 0, result.message
        return result.fun


def negated(terms):
    return [(column, -factor) for column, factor in terms]


class Cut:
    """Layers in order at positions 0..ranks-1; at(layer, k) is a sum and a constant."""

    def __init__(self, program, layers, ranks):
        self.before = [[program.column(whole=1) for _ in range(ranks - 1)] for _ in range(layers)]
        for layer in range(layers):
            for k in range(ranks - 2):
                program.at_least(0, [(self.before[layer][k + 1], 1), (self.before[layer][k], -1)])
            for k in range(ranks - 1 if layer else 0):
                program.at_least(0, [(self.before[layer - 1][k], 1), (self.before[layer][k], -1)])
        self.ranks = ranks

    def at(self, layer, k):
        terms, constant = [], 0
        if k < self.ranks - 1:
            terms.append((self.before[layer][k], 1))
        else:
            constant = 1
        if k > 0:
            terms.append((self.before[layer][k - 1], -1))
        return terms, constant

    def within(self, layer, positions):
        sums = [self.at(layer, k) for k in positions]
        return sum((terms for terms, _ in sums), []), sum(constant for _, constant in sums)


def exchanges(problem, forward, backward):
    """(bytes, makers, takers), each maker and taker a (cut, layer)."""
    layers, tensors = problem["layers"], problem["tensors"]
    for t, tensor in enumerate(tensors):
        producer = tensor["producer"]
        if producer < 0:
            continue
        readers = [l for l, layer in enumerate(layers) if t in layer["forward_reads"]]
        stash_readers = [l for l, layer in enumerate(layers) if t in layer["backward_reads"]]
        yield tensor["bytes"], [(forward, producer)], [(forward, l) for l in readers] + [(backward, l) for l in stash_readers]
        if tensor["gradient"]:
            yield tensor["bytes"], [(backward, l) for l in readers], [(backward, producer)]
    for l, layer in enumerate(layers):
        yield layer["parameter_bytes"], [(backward, l)], [(forward, l)]


def least_bottleneck(problem, borders):
    program, ranks = Program(), len(borders)
    layers = problem["layers"]
    forward = Cut(program, len(layers), ranks)
    backward = forward if problem["joint"] else Cut(program, len(layers), ranks)
    for k in range(ranks):
        busy, constant = [(program.time, 1)], 0
        for l, layer in enumerate(layers):
            for cut, seconds in ((forward, layer["forward_s"]), (backward, layer["backward_s"] + layer["update_s"])):
                terms, share = cut.at(l, k)
                busy += [(column, -seconds * factor) for column, factor in terms]
                constant += seconds * share
        program.at_least(constant, busy)
    everything = list(exchanges(problem, forward, backward))
    for border in set(borders):
        inside = [k for k in range(ranks) if borders[k] == border]
        outside = [k for k in range(ranks) if borders[k] != border]
        for here, there in ((inside, outside), (outside, inside)):  # what enters, what leaves
            busy = [(program.time, problem["bandwidth"])]
            for size, makers, takers in everything:
                crosses = program.column()
                busy.append((crosses, -size))
                for (cut, maker), (other, taker) in itertools.product(makers, takers):
                    made, made_constant = cut.within(maker, there)
                    taken, taken_constant = other.within(taker, here)
                    program.at_least(made_constant + taken_constant - 1,
                                     [(crosses, 1)] + negated(made) + negated(taken))
            program.at_least(0, busy)
    return program.least()


def main():
    problems = json.loads(subprocess.run([sys.argv[1]], check=True, stdout=subprocess.PIPE).stdout)
    wrong = 0
    for problem in problems:
        if len(set(problem["borders"])) == len(problem["borders"]):
            orders = [problem["borders"]]  # all ranks alike
        else:
            orders = sorted(set(itertools.permutations(problem["borders"])))
        least = min(least_bottleneck(problem, order) for order in orders)
        if abs(least - problem["optimum"]) > 1e-5 * max(least, 1e-9):
            print(f"seed {problem['seed']}: HiGHS {least}, ours {problem['optimum']}")
            wrong += 1
    print(f"{len(problems) - wrong} of {len(problems)} optima agree")
    return 1 if wrong or not problems else 0


if __name__ == "__main__":
    sys.exit(main())
