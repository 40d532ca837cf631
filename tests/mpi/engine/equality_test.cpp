// A synchronous plan trains the same model as one rank does: bit for bit without replicas, else up to rounding.
#include "tests/mpi/engine/equality.h"

#include <gtest/gtest.h>

#include <random>
#include <tuple>

#include "optimizer/schedule/cooperative.h"
#include "runtime/device/fake/fake_device.h"
#include "runtime/engine/agreement.h"
#include "runtime/nn/models.h"
#include "tests/unit/schedule/examples.h"
#include "tests/unit/schedule/partition.h"

namespace sluice {
namespace {

TEST_F(Equality, holds_for_every_schedule_cut_and_number_of_microbatches) {
  use(small_model(4), 5 * 8 * 4);
  expect_all_equal({1, 2, 3, 4}, {1, 2, 3, 8}, *host_, Algorithm::hierarchical);
}

TEST_F(Equality, holds_with_flat_multicasts) {
  use(small_model(3), 5 * 3 * 3);
  expect_all_equal({3, 4}, {3}, *host_, Algorithm::flat);
}

TEST_F(Equality, holds_however_multicasts_travel) {
  use(small_model(2), 5 * 4 * 2);
  for (const Algorithm algorithm : algorithms(CollectiveKind::multicast))
    for (const std::int64_t segment : {0, 100})
      for (const bool cooperative : {false, true}) {
        SCOPED_TRACE(text(to_string(algorithm), ", segments of ", segment, cooperative ? ", cooperative" : ""));
        std::vector<Stage> stages =
            cooperative ? cooperative_stages(profile_.model, bounds(layers(), 4, 0)) : shifted(4, 2);
        Plan routed = plan(cooperative ? "cooperative" : "1f1b", 4, stages, algorithm);
        for (Transfer& transfer : routed.transfers) transfer.route = {algorithm, segment};
        expect_equal(routed, task(4), *host_);
      }
}

TEST_F(Equality, holds_up_to_rounding_however_all_reduces_travel) {
  use(small_model(2), 4 * 4 * 2);
  for (const Algorithm algorithm : algorithms(CollectiveKind::all_reduce))
    for (const std::vector<Rank>& owners : {std::vector<Rank>{0, 1, 2, 3}, {0, 2}, {1, 3, 2}}) {
      SCOPED_TRACE(text(to_string(algorithm), " of ", owners.size()));
      TrainingTask task = this->task(4);
      task.steps = 4;
      std::vector<Stage> stages;
      append(stages, Work::forward, bounds(layers(), 1, 0), {owners});
      append(stages, Work::backward, bounds(layers(), 1, 0), {owners});
      Plan routed = plan("1f1b", 4, stages);
      for (Transfer& transfer : routed.transfers)
        if (transfer.payload == Payload::weight_gradients) transfer.route = {algorithm, 0};
      expect_close(routed, task, *host_);
    }
}

TEST_F(Equality, holds_on_an_asynchronous_device) {
  use(small_model(2), 5 * 3 * 2);
  const std::unique_ptr<Device> fake = create_fake_device(create_host_device(), {.seed = 7});
  expect_all_equal({1, 2, 4}, {3}, *fake, Algorithm::hierarchical);
}

TEST_F(Equality, holds_with_three_owners) {
  use(small_model(2), 5 * 8 * 2);
  for (const int m : {1, 3, 8})
    for (const char* schedule : {"gpipe", "1f1b"})
      for (const int k : {1, 2, 3, 4})
        for (const auto& [forward, input, weight] : {std::tuple{0, 0, 0}, {2, 0, -2}, {-2, 2, 0}, {0, -2, 2}}) {
          SCOPED_TRACE(text(schedule, ", ", k, " workers, M = ", m, ", shifts ", forward, ' ', input, ' ', weight));
          std::vector<Stage> stages;
          append(stages, Work::forward, bounds(layers(), k, forward));
          append(stages, Work::backward_input, bounds(layers(), k, input));
          append(stages, Work::backward_weight, bounds(layers(), k, weight));
          for (Stage& stage : stages)  // on a third rank, where there are so many
            if (stage.work == Work::backward_weight) stage.owners[0] = (stage.owners[0] + forward / 2 + k) % k;
          expect_equal(plan(schedule, m, stages), task(m), *host_);
        }
}

TEST_F(Equality, holds_with_recomputation) {
  use(small_model(2), 5 * 7 * 2);
  for (const int m : {1, 2, 7})
    for (const char* schedule : {"gpipe", "1f1b"})
      for (const int k : {1, 2, 4})
        for (const int share : {1, 2})
          for (const Cuts& cuts : kCuts) {
            SCOPED_TRACE(text(schedule, ", ", k, " workers, M = ", m, ", ", cuts.name, ", every ", share));
            expect_equal(plan(schedule, m, with_recomputes(shifted(k, cuts.shift), share)), task(m), *host_);
          }
}

TEST_F(Equality, holds_under_the_cooperative_schedule) {
  use(small_model(2), 5 * 8 * 2);
  const std::unique_ptr<Device> fake = create_fake_device(create_host_device(), {.seed = 11});
  for (const int m : {1, 2, 3, 5, 8})
    for (const int k : {1, 2, 3, 4}) {
      SCOPED_TRACE(text(k, " workers, M = ", m));
      const Plan cooperative = plan("cooperative", m, cooperative_stages(profile_.model, bounds(layers(), k, 0)));
      expect_equal(cooperative, task(m), m == 3 ? *fake : *host_);
      EXPECT_EQ(evaluated(cooperative, task(m)), evaluated(plan("1f1b", m, shifted(1, 0)), task(m)));
    }
}

TEST_F(Equality, holds_where_one_rank_reads_the_data_for_all) {
  use(small_model(2), 5 * 5 * 2);
  const std::unique_ptr<Device> fake = create_fake_device(create_host_device(), {.seed = 13});
  for (const Rank reader : {0, 1, 3})  // where there are fewer workers, rank 3 has no stage
    for (const int m : {1, 2, 5})
      for (const int k : {1, 3, 4}) {
        SCOPED_TRACE(text("reader ", reader, ", M = ", m, ", ", k, " workers"));
        data_reader_ = kNone;
        const double loss = evaluated(plan("1f1b", m, shifted(k, 2)), task(m));
        data_reader_ = reader;
        EXPECT_EQ(evaluated(plan("1f1b", m, shifted(k, 2)), task(m)), loss);
        expect_equal(plan("gpipe", m, shifted(k, 0), Algorithm::flat), task(m), *host_);
        expect_equal(plan("1f1b", m, with_recomputes(shifted(k, -2), 1)), task(m), *fake);
        expect_equal(plan("cooperative", m, cooperative_stages(profile_.model, bounds(layers(), k, 0))), task(m),
                     *host_);
        const std::vector<int> cuts = bounds(layers(), 2 * k, 0);
        for (const char* schedule : {"interleaved-1f1b", "zb-v"})
          expect_equal(plan(schedule, m, stages_of({cuts, cuts}, schedule, k)), task(m), *host_);
      }
}

TEST_F(Equality, a_dataset_that_its_one_reader_cannot_open_is_an_error_everywhere) {
  use(small_model(2), 4);
  data_reader_ = 1;
  const Plan plan = this->plan("1f1b", 2, shifted(4, 0));
  try {
    (void)open_data(world_, world_.rank() == 1 ? "/no/such/folder/data.h5" : data_, plan);
    FAIL() << "nothing was thrown";
  } catch (const AgreedError& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::bad_input);
    EXPECT_NE(std::string(error.what()).find("/no/such/folder/data.h5"), std::string::npos) << error.what();
  }
}

/// Stages of any layers and owners, halves of backward and recomputation, without replicas.
TEST_F(Equality, holds_for_random_stages) {
  use(small_model(2), 3 * 6 * 2);
  const std::unique_ptr<Device> fake = create_fake_device(create_host_device(), {.seed = 3});
  for (unsigned seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(text("seed ", seed));
    std::mt19937_64 random(seed);
    TrainingTask task = this->task(1 + static_cast<int>(seed % 6));
    task.steps = 3;
    std::vector<Stage> stages = examples::random_stages(random, profile_.model, world_.size(), world_.size());
    for (Stage& stage : stages) stage.owners.resize(1);
    const Algorithm algorithm = seed % 2 == 0 ? Algorithm::flat : Algorithm::hierarchical;
    data_reader_ = seed % 3 == 1 ? static_cast<Rank>(seed) % world_.size() : kNone;
    expect_equal(plan(seed % 3 == 0 ? "gpipe" : "1f1b", task.microbatches, stages, algorithm), task,
                 seed % 4 == 0 ? *fake : *host_);
  }
}

TEST_F(Equality, holds_up_to_rounding_with_replicas) {
  use(small_model(2), 4 * 5 * 2);
  const std::vector<std::vector<std::vector<Rank>>> splits{
      {{0, 1, 2, 3}}, {{0, 1}, {2, 3}}, {{0, 1, 2}, {3}}, {{3}, {2, 0, 1}}, {{1, 0}, {2}, {3}}};
  for (const int m : {1, 3, 5})  // fewer than replicas, too
    for (const auto& forward : splits)
      for (const auto& backward : splits) {
        if (forward.size() != backward.size()) continue;
        SCOPED_TRACE(text(forward.size(), " workers, the first of ", forward[0].size(), " and ", backward[0].size(),
                          " ranks, M = ", m));
        TrainingTask task = this->task(m);
        task.steps = 4;
        const int k = static_cast<int>(forward.size());
        std::vector<Stage> stages;
        append(stages, Work::forward, bounds(layers(), k, 0), forward);
        append(stages, Work::backward, bounds(layers(), k, m == 3 ? 2 : 0), backward);
        expect_close(plan(m == 1 ? "gpipe" : "1f1b", m, m == 5 ? with_recomputes(stages, 1) : stages), task, *host_);
      }
}

TEST_F(Equality, holds_up_to_rounding_for_random_stages_with_replicas) {
  use(small_model(2), 3 * 6 * 2);
  const std::unique_ptr<Device> fake = create_fake_device(create_host_device(), {.seed = 5});
  for (unsigned seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE(text("seed ", seed));
    std::mt19937_64 random(seed);
    TrainingTask task = this->task(1 + static_cast<int>(seed % 6));
    task.steps = 3;
    const int positions = 1 + static_cast<int>(seed % 3);
    const std::vector<Stage> stages = examples::random_stages(random, profile_.model, positions, world_.size());
    expect_close(plan(seed % 2 == 0 ? "gpipe" : "1f1b", task.microbatches, stages), task,
                 seed % 4 == 0 ? *fake : *host_);
  }
}

TEST_F(Equality, holds_for_lenet5) {
  use(build_model("lenet5", {1, 28, 28}, 10, 4), 5 * 3 * 4);
  expect_all_equal({2, 3, 4}, {1, 3}, *host_, Algorithm::hierarchical);
}

TEST_F(Equality, holds_for_vgg11) {
  use(build_model("vgg11", {3, 32, 32}, 10, 2), 2 * 2 * 2);
  const TrainingTask task{.data = data_, .microbatches = 2, .steps = 2};
  expect_equal(plan("1f1b", 2, shifted(3, 2)), task, *host_);
}

}  // namespace
}  // namespace sluice
