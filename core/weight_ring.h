#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/asynchronous.h"
#include "core/index.h"

namespace sluice {

/// The versions of the weights that one rank holds while it runs an asynchronous program: the part of the verifier that
/// knows the formulas of core/asynchronous.h. Each call answers what is wrong with an instruction, empty if nothing is.
class WeightRing {
 public:
  /// How far things are, with micro-batches and versions counted from a steady program's base.
  struct State {
    std::vector<int> newest;                         ///< by layer
    std::vector<int> updates;                        ///< by stage
    std::set<std::pair<LayerId, int>> receiving;     ///< layer, version
    std::multiset<std::pair<LayerId, int>> sending;  ///< likewise
    bool operator==(const State&) const = default;
  };

  explicit WeightRing(const Plan& plan);

  /// A compute uses, of each layer, the version of its micro-batch, which is there and whole.
  [[nodiscard]] std::string use(const Instruction& compute) const;

  /// An optimizer step makes the next version, from the gradients of the micro-batches that it names.
  /// @param backwards  of the stage, done so far
  [[nodiscard]] std::string update(const Instruction& step, int backwards);

  /// A send needs its version until its wait; a receive replaces the oldest version from its start on.
  [[nodiscard]] std::string start(const Instruction& transfer, LayerId layer, bool sends);
  [[nodiscard]] std::string wait(const Instruction& transfer, LayerId layer, bool sends);

  /// All layers that the rank runs are at the version after that many micro-batches.
  [[nodiscard]] std::string at_end(Rank rank, int microbatches) const;

  [[nodiscard]] State state(Rank rank, int version_base) const;

 private:
  [[nodiscard]] bool has_parameters(LayerId layer) const { return plan_.profile.costs[at(layer)].parameter_bytes > 0; }
  [[nodiscard]] std::string weights(LayerId layer, int version) const;
  [[nodiscard]] std::string missing(LayerId layer, int version) const;
  [[nodiscard]] std::string replace(LayerId layer, int version);

  const Plan& plan_;
  const WeightVersions versions_;
  State now_;
  std::map<std::pair<int, int>, int> travelling_;  // transfer, micro-batch: version
};

}  // namespace sluice
