#include "runtime/comm/algorithm_fit.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "core/error.h"
#include "core/route_choice.h"
#include "core/statistics.h"
#include "core/text.h"

namespace sluice {
namespace {

constexpr int kMostRounds = 30;
constexpr int kMostHalvings = 4;
constexpr double kEnough = 1e-4;     // a round that lowers the sum by less is the last
constexpr double kStep = 0.01;       // of a figure, to see what depends on it
constexpr double kScale = 1000;      // figures times this: collective_time() counts in whole nanoseconds
constexpr double kExact = 1e-3;      // errors below count as equally good
constexpr double kLeastShare = 0.5;  // of a lone message's latency: free messages would be cut into tiny segments
constexpr double kPull = 1e-3;       // towards the links' figures, against a whole sample's error
constexpr double kLeastLatency_s = 1e-9;
constexpr double kLeastPerByte_s = 1e-13;

/// Latency and seconds a byte inside nodes, then between them.
using Figures = std::array<double, 4>;

double per_byte(const LinkClass& link) { return 1 / link.bandwidth_bytes_per_s; }

LinkClass link_of(double latency_s, double per_byte_s) {
  return {latency_s, per_byte_s > 0 ? 1 / per_byte_s : std::numeric_limits<double>::infinity()};
}

/// Solves min |sqrt(w) (A x - b)|, x >= least, by coordinates in turns, from x on: what b does not depend on keeps its
/// value.
class LeastSquares {
 public:
  explicit LeastSquares(const Figures& least) : least_(least) {}

  void add(const Figures& row, double wanted, double weight) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      target_[i] += weight * row[i] * wanted;
      for (std::size_t j = 0; j < row.size(); ++j) matrix_[i][j] += weight * row[i] * row[j];
    }
  }

  [[nodiscard]] Figures solve(Figures x) const {
    for (int sweep = 0; sweep < 10000; ++sweep) {
      double change = 0;
      for (std::size_t i = 0; i < x.size(); ++i) {
        if (matrix_[i][i] <= 0) continue;
        const double rest = target_[i] - std::inner_product(x.begin(), x.end(), matrix_[i].begin(), 0.0);
        const double next = std::max(least_[i], x[i] + rest / matrix_[i][i]);
        change += std::abs(next - x[i]) * std::sqrt(matrix_[i][i]);
        x[i] = next;
      }
      if (change < 1e-9) break;
    }
    return x;
  }

 private:
  Figures least_;
  std::array<Figures, 4> matrix_{};
  Figures target_{};
};

class Fit {
 public:
  Fit(CollectiveKind kind, Algorithm algorithm, std::span<const CollectiveSample> samples, const Cluster& cluster)
      : cost_{kind, algorithm, {}, {}}, samples_(samples), cluster_(cluster) {
    links_ = {cluster.intra_node.latency_s, per_byte(cluster.intra_node), cluster.inter_node.latency_s,
              per_byte(cluster.inter_node)};
    const Figures least_step{kLeastLatency_s, kLeastPerByte_s, kLeastLatency_s, kLeastPerByte_s};
    for (std::size_t i = 0; i < links_.size(); ++i) steps_[i] = kStep * std::max(links_[i], least_step[i]);
    least_ = {kLeastShare * links_[0], 0, kLeastShare * links_[2], 0};
    if (may_be_many()) least_[1] = links_[1], least_[3] = links_[3];
  }

  AlgorithmCost run() {
    Figures figures = links_;
    std::vector<double> predicted = predict(figures);
    for (int round = 0; round < kMostRounds; ++round) {
      const double before = sum_of_errors(predicted);
      improve(figures, predicted);
      if (sum_of_errors(predicted) > before * (1 - kEnough)) break;
    }
    std::tie(cost_.intra_node, cost_.inter_node) = links(figures);
    cost_.median_error = median_error(predicted);
    return cost_;
  }

 private:
  /// Segments of this size may follow each other, or payloads may be many times larger: a link's rate is then the
  /// limit.
  [[nodiscard]] bool may_be_many() const {
    return std::any_of(samples_.begin(), samples_.end(), [](const CollectiveSample& sample) {
      return message_bytes(sample.route, sample.bytes) >= kLeastSegment;
    });
  }

  [[nodiscard]] static std::pair<LinkClass, LinkClass> links(const Figures& figures) {
    return {link_of(figures[0], figures[1]), link_of(figures[2], figures[3])};
  }

  /// Times of all samples [s].
  std::vector<double> predict(Figures figures) {
    for (double& figure : figures) figure *= kScale;
    std::tie(cost_.intra_node, cost_.inter_node) = links(figures);
    cluster_.algorithm_costs = {cost_};
    std::vector<double> seconds;
    for (const CollectiveSample& sample : samples_)
      seconds.push_back(collective_time(cost_.collective, sample.group, sample.route, sample.bytes, cluster_) / kScale);
    return seconds;
  }

  [[nodiscard]] double median_error(const std::vector<double>& predicted) const {
    std::vector<double> errors;
    for (std::size_t s = 0; s < samples_.size(); ++s)
      errors.push_back(std::abs(predicted[s] / samples_[s].seconds - 1));
    return median(std::move(errors));
  }

  /// What the errors of sample `s` are shares of.
  [[nodiscard]] double larger(const std::vector<double>& predicted, std::size_t s) const {
    return std::max(predicted[s], samples_[s].seconds);
  }

  [[nodiscard]] double error(const std::vector<double>& predicted, std::size_t s) const {
    return std::abs(predicted[s] - samples_[s].seconds) / larger(predicted, s);
  }

  [[nodiscard]] double sum_of_errors(const std::vector<double>& predicted) const {
    double sum = 0;
    for (std::size_t s = 0; s < samples_.size(); ++s) sum += error(predicted, s);
    return sum;
  }

  /// To where the linear model finds the least, or less far where the paths change on the way; stays if all is worse.
  void improve(Figures& figures, std::vector<double>& predicted) {
    const Figures goal = linear(figures, predicted).solve(figures);
    const double before = sum_of_errors(predicted);
    double share = 1;
    for (int halving = 0; halving <= kMostHalvings; ++halving, share /= 2) {
      Figures next = figures;
      for (std::size_t i = 0; i < next.size(); ++i) next[i] += share * (goal[i] - figures[i]);
      std::vector<double> times = predict(next);
      if (sum_of_errors(times) >= before) continue;
      figures = next;
      predicted = std::move(times);
      return;
    }
  }

  LeastSquares linear(const Figures& figures, const std::vector<double>& predicted) {
    std::array<std::vector<double>, 4> moved;
    for (std::size_t i = 0; i < figures.size(); ++i) {
      Figures beside = figures;
      beside[i] += steps_[i];
      moved[i] = predict(beside);
    }
    LeastSquares squares(least_);
    for (std::size_t s = 0; s < samples_.size(); ++s) {
      Figures row{};
      double wanted = (samples_[s].seconds - predicted[s]) / larger(predicted, s);
      for (std::size_t i = 0; i < figures.size(); ++i) {
        row[i] = (moved[i][s] - predicted[s]) / steps_[i] / larger(predicted, s);
        wanted += row[i] * figures[i];
      }
      squares.add(row, wanted, 1 / std::max(error(predicted, s), kExact));
    }
    pull(squares);
    return squares;
  }

  /// Times of one size do not tell latency from seconds a byte: what they leave open changes by the same share.
  void pull(LeastSquares& squares) const {
    for (std::size_t i = 0; i < links_.size(); ++i) {
      Figures row{};
      row[i] = kStep / steps_[i];
      squares.add(row, row[i] * links_[i], kPull);
    }
  }

  AlgorithmCost cost_;
  std::span<const CollectiveSample> samples_;
  Cluster cluster_;
  Figures links_{};
  Figures steps_{};
  Figures least_{};
};

}  // namespace

AlgorithmCost fit_algorithm(CollectiveKind kind, Algorithm algorithm, std::span<const CollectiveSample> samples,
                            const Cluster& cluster) {
  if (samples.empty()) throw runtime_fault(text("no ", to_string(kind), " by ", to_string(algorithm), " was measured"));
  for (const CollectiveSample& sample : samples)
    if (!std::isfinite(sample.seconds) || sample.seconds <= 0 || sample.route.algorithm != algorithm)
      throw runtime_fault(text(to_string(kind), " of ", sample.bytes, " bytes by ", to_string(sample.route.algorithm),
                               " took ", sample.seconds, " s, expected one by ", to_string(algorithm), ", above 0"));
  return Fit(kind, algorithm, samples, cluster).run();
}

}  // namespace sluice
