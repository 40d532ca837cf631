#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/storage/results_file.h"

namespace sluice {

/// What a rank did with its time, as shares of its steps (the first left out).
struct RankFigures {
  Rank rank = 0;
  std::string host;
  std::int64_t steps = 0;    ///< recorded; 0: what is measured means nothing
  double compute = 0;        ///< forward and backward works
  double update = 0;         ///< optimizer steps
  double load = 0;           ///< images and labels
  double communication = 0;  ///< starts of collectives
  double wait = 0;           ///< waits for collectives
  double bubble = 0;         ///< 1 - compute: all time in which the rank does not compute
  double predicted_bubble = 0;
  std::int64_t peak_memory_bytes = 0;
  std::int64_t predicted_peak_memory_bytes = 0;
};

/// Payload of one step on one link class, summed over the senders.
struct TrafficFigures {
  LinkKind link = LinkKind::intra_node;
  double predicted_bytes = 0;
  /// Mean over the steps; a whole number if all are alike. None if no rank recorded a step.
  std::optional<double> measured_bytes = {};
};

/// One kind of work of one stage, per micro-batch (update: per step).
struct StageFigures {
  Op op = Op::forward;
  int stage = 0;             ///< row of Plan::stages
  int index = 0;             ///< position in the pipeline: the 2 of a printed cell 2F0
  std::string layers;        ///< "conv1 to pool2"
  std::vector<Rank> ranks;   ///< that run it
  double predicted_s = 0;    ///< mean over its instructions of instruction_time()
  double measured_s = 0;     ///< median over its instructions in the recorded steps
  std::int64_t samples = 0;  ///< instructions measured; 0: measured_s means nothing
};

/// Payload of one transfer in one step, summed over the senders, by LinkKind.
struct TransferFigures {
  int transfer = 0;  ///< row of Plan::transfers
  std::string what;  ///< "activation relu1, 0 to 1,2 by chain"
  std::array<double, 2> predicted_bytes{};
  /// Mean over the recorded steps; none if no instruction was recorded.
  std::optional<std::array<double, 2>> counted_bytes = {};
};

/// What a run's record says, predicted beside measured.
struct Figures {
  std::int64_t steps = 0;
  std::int64_t epochs = 0;
  float first_loss = 0;
  float last_loss = 0;
  std::optional<Evaluation> evaluation;  ///< the last one
  double step_median_s = 0;              ///< the first step is left out as warm-up if there are more
  double step_p95_s = 0;
  double images_per_s = 0;
  double predicted_step_s = 0;
  std::optional<double> bubble;  ///< over the ranks that compute; none if no rank recorded a step
  double predicted_bubble = 0;
  std::vector<RankFigures> ranks;
  std::vector<TrafficFigures> traffic;     ///< by LinkKind
  std::vector<TransferFigures> transfers;  ///< those that send anything, most between nodes first
  std::vector<StageFigures> stages;
  std::vector<std::string> flags;  ///< what a reader should know before believing the numbers
};

/// A measured step whose time differs by more than this share from the prediction is flagged.
inline constexpr double kBadPrediction = 0.25;

[[nodiscard]] Figures figures_of(const RunResults& results);

/// (measured - predicted) / predicted; 0 if nothing was predicted and nothing measured.
[[nodiscard]] double relative_difference(double predicted, double measured);

}  // namespace sluice
