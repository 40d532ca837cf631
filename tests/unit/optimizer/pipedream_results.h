#pragma once

#include <string>
#include <vector>

#include "optimizer/solver/pipedream_levels.h"

namespace sluice::testing {

inline const std::string kPipedreamFolder = "tests/data/pipedream/";

/// A run of PipeDream's published optimizer: pipedream_optimizer_results.jsonl holds one a line.
struct PipedreamResult {
  std::string profile;        ///< "vgg16"
  std::string configuration;  ///< "n=4,2 b=12.5e9,1.25e9 straight,comm": machines and bytes/s, innermost level first
  std::vector<PipedreamLevel> levels;
  PipedreamRules rules;
  int states = 0;      ///< the sets of layers among which it looked
  PipedreamPlan plan;  ///< infinite where it crashed for want of a plan

  [[nodiscard]] std::string name() const { return profile + " " + configuration; }
};

/// All runs that came to an end.
[[nodiscard]] std::vector<PipedreamResult> pipedream_results();

}  // namespace sluice::testing
