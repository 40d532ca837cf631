// sluice-run as its users meet it: real processes, files and exit codes.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include "core/asynchronous.h"
#include "core/cost_model.h"
#include "core/error.h"
#include "core/prediction.h"
#include "core/simulator.h"
#include "core/storage/cluster_file.h"
#include "core/storage/dataset_file.h"
#include "core/storage/folder_lock.h"
#include "core/storage/plan_file.h"
#include "core/storage/profile_file.h"
#include "core/storage/reader.h"
#include "core/storage/results_file.h"
#include "core/storage/weights_file.h"
#include "core/text.h"
#include "runtime/nn/model_builder.h"
#include "runtime/nn/models.h"
#include "tests/mpi/engine/sluice_run.h"

namespace sluice {
namespace {

TEST_F(SluiceRun, trains_on_three_ranks_as_on_one) {
  write_plan(file("one.h5"), plan(small_model(4), "sequential", 1, 1, {{0, 13}, {0, 13}}));
  write_plan(file("three.h5"), plan(small_model(4), "1f1b", 1, 3, {{0, 6, 9, 13}, {0, 3, 8, 13}}));
  const std::string more = text("--steps 5 --evaluate-every 1 --save-weights ", file("weights-"));
  const Outcome one = train(1, "one.h5", text(more, "one.h5 -o ", file("one-r.h5")));
  ASSERT_EQ(one.code, 0) << one.err;
  const RunResults expected = read_results(file("one-r.h5"));
  EXPECT_EQ(expected.tables.steps.size(), 5U);
  ASSERT_EQ(expected.tables.evaluations.size(), 1U);
  EXPECT_EQ(expected.tables.evaluations[0].samples, 10);
  for (const char* device : {"host", "fake"}) {
    const Outcome three = train(3, "three.h5", text(more, "three.h5 --device ", device, " -o ", file("three-r.h5")));
    ASSERT_EQ(three.code, 0) << three.err;
    const RunResults results = read_results(file("three-r.h5"));
    EXPECT_TRUE(results.merged);
    ASSERT_EQ(results.tables.steps.size(), 5U);
    for (std::size_t step = 0; step < 5; ++step)
      EXPECT_EQ(results.tables.steps[step].loss, expected.tables.steps[step].loss) << "step " << step;
    EXPECT_EQ(results.tables.evaluations, expected.tables.evaluations);
    EXPECT_EQ(read_weights(file("weights-three.h5")), read_weights(file("weights-one.h5")));
    EXPECT_EQ(read_provenance(file("weights-three.h5")), read_provenance(file("three-r.h5")));
    EXPECT_EQ(read_provenance(file("weights-three.h5")).parameters.at("device"), device);
    EXPECT_FALSE(std::filesystem::exists(parts_folder(file("three-r.h5"))));
  }
}

std::vector<LayerId> layers(LayerId begin, LayerId end) {
  std::vector<LayerId> layers;
  for (LayerId layer = begin; layer < end; ++layer) layers.push_back(layer);
  return layers;
}

TEST_F(SluiceRun, trains_and_evaluates_with_three_owners_and_recomputation_as_on_one_rank) {
  write_plan(file("one.h5"), plan(small_model(4), "sequential", 1, 1, {{0, 13}, {0, 13}}));
  write_plan(file("three.h5"), plan_of({{Work::forward, 0, layers(0, 6), {0}},
                                        {Work::forward, 1, layers(6, 13), {1}},
                                        {Work::backward_input, 0, layers(0, 8), {1}},
                                        {Work::backward_input, 1, layers(8, 13), {2}},
                                        {Work::backward_weight, 0, layers(0, 8), {2}},
                                        {Work::backward_weight, 1, layers(8, 13), {0}},
                                        {Work::recompute, 1, layers(8, 13), {2}}},
                                       3));
  const std::string more = text("--steps 5 --evaluate-every 1 --save-weights ", file("weights-"));
  ASSERT_EQ(train(1, "one.h5", text(more, "one.h5 -o ", file("one-r.h5"))).code, 0);
  const Outcome three = train(3, "three.h5", text(more, "three.h5 -o ", file("three-r.h5")));
  ASSERT_EQ(three.code, 0) << three.err;
  const RunTables expected = read_results(file("one-r.h5")).tables, tables = read_results(file("three-r.h5")).tables;
  for (std::size_t step = 0; step < 5; ++step)
    EXPECT_EQ(tables.steps[step].loss, expected.steps[step].loss) << "step " << step;
  EXPECT_EQ(tables.evaluations, expected.evaluations);
  EXPECT_EQ(read_weights(file("weights-three.h5")), read_weights(file("weights-one.h5")));
}

TEST_F(SluiceRun, trains_and_evaluates_with_replicas_as_on_one_rank_up_to_rounding) {
  write_plan(file("one.h5"), plan(small_model(4), "sequential", 1, 1, {{0, 13}, {0, 13}}));
  const Plan replicas = plan_of({{Work::forward, 0, layers(0, 7), {0}},
                                 {Work::forward, 1, layers(7, 13), {2, 1}},
                                 {Work::backward, 0, layers(0, 7), {1, 0}},
                                 {Work::backward, 1, layers(7, 13), {2}}},
                                3);
  write_plan(file("three.h5"), replicas);
  const std::string more = text("--steps 5 --evaluate-every 1 --save-weights ", file("weights-"));
  ASSERT_EQ(train(1, "one.h5", text(more, "one.h5 -o ", file("one-r.h5"))).code, 0);
  const Outcome three = train(3, "three.h5", text(more, "three.h5 -o ", file("three-r.h5")));
  ASSERT_EQ(three.code, 0) << three.err;
  const RunTables expected = read_results(file("one-r.h5")).tables, tables = read_results(file("three-r.h5")).tables;
  EXPECT_EQ(tables.steps[0].loss, expected.steps[0].loss);
  for (std::size_t step = 1; step < 5; ++step)
    EXPECT_NEAR(tables.steps[step].loss, expected.steps[step].loss, 1e-5 * expected.steps[step].loss);
  EXPECT_NEAR(tables.evaluations[0].loss, expected.evaluations[0].loss, 1e-5 * expected.evaluations[0].loss);
  EXPECT_EQ(tables.evaluations[0].accuracy, expected.evaluations[0].accuracy);
  EXPECT_EQ(tables.evaluations[0].samples, 10);
  const Timeline predicted = simulate(replicas);
  for (const RankStep& step : tables.ranks) {
    EXPECT_EQ(step.sent_bytes, predicted.ranks[static_cast<std::size_t>(step.rank)].sent_bytes);
    EXPECT_EQ(step.received_bytes, predicted.ranks[static_cast<std::size_t>(step.rank)].received_bytes);
  }
  for (const auto& [layer, parameters] : read_weights(file("weights-one.h5")))
    for (const auto& [name, exact] : parameters) {
      const std::vector<float> values = read_weights(file("weights-three.h5")).at(layer).at(name).values;
      ASSERT_EQ(values.size(), exact.values.size()) << layer;
      for (std::size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(values[i], exact.values[i], 1e-5) << layer;
    }
}

TEST_F(SluiceRun, learns_real_images_on_two_ranks_as_on_one) {
  const std::string source = "/usr/share/datasets/fashion-mnist/";
  ASSERT_EQ(
      std::system(
          text(SLUICE_DATASET, " idx --train-images ", source, "train-images-idx3-ubyte.gz --train-labels ", source,
               "train-labels-idx1-ubyte.gz --test-images ", source, "t10k-images-idx3-ubyte.gz --test-labels ", source,
               "t10k-labels-idx1-ubyte.gz --limit-train 2000 --limit-test 500 -o ", file("data.h5"), " >", file("out"))
              .c_str()),
      0);
  EXPECT_EQ(read_provenance(file("data.h5")).parameters.at("pad"), "0");
  const Model lenet = build_model("lenet5", {1, 28, 28}, 10, 8);
  const auto layers = static_cast<int>(lenet.layers.size());
  write_plan(file("one.h5"), plan(lenet, "sequential", 1, 1, {{0, layers}, {0, layers}}, 4));
  write_plan(file("two.h5"), plan(lenet, "gpipe", 1, 2, {{0, 5, layers}, {0, 3, layers}}, 4));
  const Outcome one = train(1, "one.h5", text("--epochs 2 -o ", file("one-r.h5")));
  ASSERT_EQ(one.code, 0) << one.err;
  const Outcome two = train(2, "two.h5", text("--epochs 2 -o ", file("two-r.h5")));
  ASSERT_EQ(two.code, 0) << two.err;
  const RunTables expected = read_results(file("one-r.h5")).tables;
  const RunTables tables = read_results(file("two-r.h5")).tables;
  ASSERT_EQ(tables.steps.size(), 124U);  // 62 steps an epoch: 16 samples are left over
  EXPECT_EQ(tables.steps[62].epoch, 1);
  for (std::size_t step = 0; step < tables.steps.size(); ++step)
    EXPECT_EQ(tables.steps[step].loss, expected.steps[step].loss) << "step " << step;
  ASSERT_EQ(tables.evaluations.size(), 2U);
  EXPECT_EQ(tables.evaluations, expected.evaluations);
  EXPECT_GT(tables.evaluations.back().accuracy, 0.5);
}

TEST_F(SluiceRun, records_bytes_as_predicted_and_times_of_chosen_steps) {
  const Plan plan = two_rank_plan();
  write_plan(file("plan.h5"), plan);
  const Outcome outcome = train(2, "plan.h5", text("--steps 5 --record-every 3 -o ", file("results.h5")));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out.find("steps=5 loss="), 0U) << outcome.out;
  const RunResults results = read_results(file("results.h5"));
  const Timeline predicted = simulate(plan);
  ASSERT_EQ(results.tables.ranks.size(), 10U);
  for (const RankStep& step : results.tables.ranks) {
    EXPECT_EQ(step.sent_bytes, predicted.ranks[static_cast<std::size_t>(step.rank)].sent_bytes);
    EXPECT_EQ(step.received_bytes, predicted.ranks[static_cast<std::size_t>(step.rank)].received_bytes);
  }
  std::map<std::int64_t, std::size_t> instructions;
  for (const InstructionRecord& record : results.tables.timeline) {
    ++instructions[record.step];
    EXPECT_LE(0, record.time.start_ns);
    EXPECT_LE(record.time.start_ns, record.time.end_ns);
  }
  const Program& step = program(plan, "step");
  const std::size_t all = step.ranks[0].size() + step.ranks[1].size();
  EXPECT_EQ(instructions, (std::map<std::int64_t, std::size_t>{{0, all}, {3, all}, {4, all}}));
  EXPECT_EQ(results.header.plan, plan);
  EXPECT_EQ(results.header.predicted, predicted);
  EXPECT_EQ(results.tables.clocks.size(), 2U);
}

TEST_F(SluiceRun, trains_an_asynchronous_plan_and_records_its_steady_runs) {
  const Plan plan = this->plan(small_model(4), "pipedream", 1, 3, {{0, 6, 9, 13}, {0, 3, 8, 13}}, 1);
  write_plan(file("plan.h5"), plan);  // a drain finishes two of its steps
  expect_refused(train(3, "plan.h5", text("--steps 1 -o ", file("results.h5"))), ExitCode::bad_input,
                 "needs at least 2 steps from one evaluation to the next");
  const Outcome outcome = train(3, "plan.h5", text("--steps 9 --record-every 1 -o ", file("results.h5")));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find(text("predicted_step_s=", predict_step(plan).step_s)), std::string::npos) << outcome.out;
  const RunResults results = read_results(file("results.h5"));
  EXPECT_EQ(results.tables.steps.size(), 9U);
  const auto runs = static_cast<std::size_t>(9 - steadies_in_drain(plan) - steadies_to_settle(plan));
  EXPECT_EQ(results.tables.ranks.size(), 3 * runs);
  std::size_t instructions = 0;
  for (const auto& list : training_program(plan).ranks) instructions += list.size();
  EXPECT_EQ(results.tables.timeline.size(), instructions * runs);
  for (const RankStep& step : results.tables.ranks)
    EXPECT_EQ(step.sent_bytes, predict_step(plan).timeline.ranks[static_cast<std::size_t>(step.rank)].sent_bytes);
}

TEST_F(SluiceRun, profiles_a_model_and_probes_the_links) {
  const Outcome profiled = run(2, text("profile --model lenet5 --image 28 --channels 1 --classes 10 --microbatch 4 "
                                       "--repeats 3 -o ",
                                       file("profile.h5")));
  ASSERT_EQ(profiled.code, 0) << profiled.err;
  const Profile profile = read_profile(file("profile.h5"));
  EXPECT_EQ(profile.model, build_model("lenet5", {1, 28, 28}, 10, 4));
  EXPECT_EQ(profile.concurrent_ranks, 2);
  for (std::size_t layer = 0; layer < profile.costs.size(); ++layer) {
    EXPECT_GT(profile.costs[layer].forward_s, 0);
    EXPECT_EQ(profile.costs[layer].backward_input_s > 0, layer > 0);
    EXPECT_EQ(profile.costs[layer].backward_weight_s > 0, !profile.model.layers[layer].parameters.empty());
  }
  ASSERT_EQ(run(2, text("probe -o ", file("cluster.h5"))).code, 0);
  EXPECT_EQ(read_cluster(file("cluster.h5")).ranks.size(), 2U);
  EXPECT_EQ(read_provenance(file("cluster.h5")).command_line, "sluice-run probe -o " + file("cluster.h5"));
  EXPECT_NE(read_provenance(file("profile.h5")).command_line.find("--repeats 3"), std::string::npos);
  EXPECT_EQ(read_provenance(file("profile.h5")).parameters.at("threads"), "1");
}

TEST_F(SluiceRun, refuses_another_number_of_ranks) {
  write_plan(file("plan.h5"), two_rank_plan());
  expect_refused(train(3, "plan.h5", text("--steps 1 -o ", file("results.h5"))), ExitCode::bad_input,
                 "was made for 2 ranks, but the job has 3");
}

TEST_F(SluiceRun, refuses_another_grouping_by_node_unless_told_to_remap) {
  write_plan(file("plan.h5"), plan(small_model(4), "1f1b", 2, 1, {{0, 7, 13}, {0, 5, 13}}));
  expect_refused(train(2, "plan.h5", text("--steps 1 -o ", file("results.h5"))), ExitCode::bad_input, "--remap");
  const Outcome remapped = train(2, "plan.h5", text("--steps 1 --remap -o ", file("results.h5")));
  ASSERT_EQ(remapped.code, 0) << remapped.err;
  const RunResults results = read_results(file("results.h5"));
  EXPECT_EQ(results.header.plan.cluster.ranks[1].node, 0);
  EXPECT_EQ(results.tables.ranks[0].sent_bytes, results.header.predicted.ranks[0].sent_bytes);
}

TEST_F(SluiceRun, routes_anew_over_the_jobs_nodes_when_it_remaps) {
  Cluster uneven = uniform_cluster(2, 2, {.latency_s = 1e-6, .bandwidth_bytes_per_s = 1e10},
                                   {.latency_s = 1e-5, .bandwidth_bytes_per_s = 1e8});
  uneven.ranks[1].node = 1;  // one alone, three together
  write_plan(file("plan.h5"), plan(small_model(4), "1f1b", uneven, {{0, 3, 6, 9, 13}, {0, 4, 5, 11, 13}}));
  const Outcome outcome = train_on_two_nodes(4, "plan.h5", text("--steps 2 --remap -o ", file("results.h5")));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const RunResults results = read_results(file("results.h5"));
  const Plan& plan = results.header.plan;
  for (std::size_t rank = 0; rank < 4; ++rank) EXPECT_EQ(plan.cluster.ranks[rank].node, static_cast<int>(rank / 2));
  for (const RankStep& step : results.tables.ranks)
    EXPECT_EQ(step.sent_bytes, results.header.predicted.ranks[static_cast<std::size_t>(step.rank)].sent_bytes);
  const auto& predicted = results.header.predicted.ranks;
  for (const InstructionRecord& row : results.tables.timeline)
    EXPECT_EQ(row.time.sent_bytes, predicted[static_cast<std::size_t>(row.rank)]
                                       .instructions[static_cast<std::size_t>(row.instruction)]
                                       .sent_bytes)
        << "step " << row.step << ", rank " << row.rank << ", instruction " << row.instruction;
  int between_nodes = 0;
  for (const Transfer& transfer : plan.transfers) {
    const Group& group = plan.groups[static_cast<std::size_t>(transfer.group)];
    const bool crosses = group.members.front() < 2 && group.members.back() >= 2;
    std::int64_t entering = 0;
    for (const Move& move : moves_of(plan, transfer))
      if (link_between(plan.cluster, move.from, move.to) == LinkKind::inter_node) entering += move.bytes;
    EXPECT_EQ(entering, crosses ? transfer.bytes : 0);
    EXPECT_EQ(transfer.predicted_s >= 1e-5, crosses);
    between_nodes += crosses ? 1 : 0;
  }
  EXPECT_GT(between_nodes, 0);
}

TEST_F(SluiceRun, lays_the_plans_ranks_over_the_jobs_nodes) {
  Cluster cyclic = uniform_cluster(2, 2, {}, {});
  for (std::size_t rank = 0; rank < 4; ++rank) cyclic.ranks[rank].node = static_cast<int>(rank % 2);
  const Plan plan = this->plan(small_model(4), "1f1b", cyclic, {{0, 3, 6, 9, 13}, {0, 4, 5, 11, 13}});
  write_plan(file("plan.h5"), plan);
  const Outcome outcome = train_on_two_nodes(4, "plan.h5", text("--steps 2 -o ", file("results.h5")));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const RunResults results = read_results(file("results.h5"));
  const Timeline predicted = simulate(plan);
  std::int64_t between_nodes = 0;
  for (const RankStep& step : results.tables.ranks) {
    EXPECT_EQ(step.sent_bytes, predicted.ranks[static_cast<std::size_t>(step.rank)].sent_bytes);
    between_nodes += step.sent_bytes[static_cast<std::size_t>(LinkKind::inter_node)];
  }
  EXPECT_GT(between_nodes, 0);
}

TEST_F(SluiceRun, refuses_a_dataset_that_does_not_fit_the_model) {
  write_plan(file("plan.h5"), two_rank_plan());
  write_random_dataset(file("data.h5"), build_model("lenet5", {1, 28, 28}, 10, 4), 60, 4);
  expect_refused(train(2, "plan.h5", text("--steps 1 -o ", file("results.h5"))), ExitCode::bad_input,
                 "images are 1x28x28");
  Model other = small_model(4);
  other.classes = 7;
  write_random_dataset(file("data.h5"), other, 60, 4);
  expect_refused(train(2, "plan.h5", text("--steps 1 -o ", file("results.h5"))), ExitCode::bad_input, "has 7 classes");
  write_random_dataset(file("data.h5"), small_model(4), 11, 4);
  expect_refused(train(2, "plan.h5", text("--steps 1 -o ", file("results.h5"))), ExitCode::bad_input,
                 "fewer than one global batch");
}

/// Node-local disks: every rank names the same file in a folder of its own, but only the data reader's has it.
TEST_F(SluiceRun, trains_from_a_file_that_only_the_data_reader_has) {
  write_plan(file("each.h5"), two_rank_plan());
  const Outcome each = train(2, "each.h5", text("--epochs 1 -o ", file("each-results.h5")));
  ASSERT_EQ(each.code, 0) << each.err;
  const Profile profile = even_profile(small_model(4));
  write_plan(file("plan.h5"), build_plan({.profile = profile,
                                          .cluster = uniform_cluster(1, 2, {}, {}),
                                          .schedule = "1f1b",
                                          .microbatches = 3,
                                          .stages = stages_of({{0, 7, 13}, {0, 5, 13}}),
                                          .data_reader = 1}));
  for (const char* folder : {"disk0", "disk1"}) std::filesystem::create_directory(file(folder));
  std::filesystem::rename(file("data.h5"), file("disk1/data.h5"));
  const std::string arguments =
      text("train --plan ", file("plan.h5"),
           " --data data.h5 --learning-rate 0.05 --momentum 0.9 --weight-decay 0.001 --seed 3 --epochs 1 -o ");
  const auto run_in = [&](const char* first, const char* second, const std::string& output) {
    const auto rank_in = [&](const char* folder) {
      return text("-n 1 -wdir ", file(folder), " ", SLUICE_RUN, " ", arguments, file(output));
    };
    return run_job(text(rank_in(first), " : ", rank_in(second)));
  };
  const Outcome outcome = run_in("disk0", "disk1", "one-results.h5");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const auto losses = [&](const std::string& name) {
    std::vector<float> losses;
    for (const StepRecord& step : read_results(file(name)).tables.steps) losses.push_back(step.loss);
    return losses;
  };
  EXPECT_EQ(losses("one-results.h5"), losses("each-results.h5"));
  EXPECT_EQ(read_results(file("one-results.h5")).tables.evaluations.at(0).loss,
            read_results(file("each-results.h5")).tables.evaluations.at(0).loss);

  expect_refused(run_in("disk1", "disk0", "results.h5"), ExitCode::bad_input, "data.h5");
}

TEST_F(SluiceRun, refuses_damaged_plans) {
  write_plan(file("plan.h5"), two_rank_plan());
  std::filesystem::resize_file(file("plan.h5"), std::filesystem::file_size(file("plan.h5")) / 2);
  expect_refused(train(2, "plan.h5", text("--steps 1 -o ", file("results.h5"))), ExitCode::bad_input, "plan.h5");

  std::filesystem::remove(file("plan.h5"));
  Plan unsound = two_rank_plan();
  unsound.programs[0].ranks[1].pop_back();
  write_plan(file("plan.h5"), unsound);
  expect_refused(train(2, "plan.h5", text("--steps 1 -o ", file("results.h5"))), ExitCode::bad_input, "program step");
}

TEST_F(SluiceRun, refuses_what_it_cannot_run_by_name) {
  Plan imported = two_rank_plan();
  imported.profile.model.layers[2].kind = LayerKind::foreign;
  write_plan(file("plan.h5"), imported);
  expect_refused(train(2, "plan.h5", text("--steps 1 -o ", file("results.h5"))), ExitCode::bad_input,
                 "pool1 was imported without kernels");
}

TEST_F(SluiceRun, refuses_a_model_whose_tensors_do_not_follow_from_its_layers) {
  Plan other = two_rank_plan();
  std::vector<Tensor>& tensors = other.profile.model.tensors;
  const auto places = std::find_if(tensors.begin(), tensors.end(), [](auto& t) { return t.name == "pool1/places"; });
  ASSERT_NE(places, tensors.end());
  places->bytes /= 2;
  write_plan(file("plan.h5"), other);
  expect_refused(train(2, "plan.h5", text("--steps 1 -o ", file("results.h5"))), ExitCode::bad_input,
                 "tensor pool1/places is not what the model's layers make of it");
}

TEST_F(SluiceRun, refuses_an_output_that_cannot_be_written_before_it_trains) {
  write_plan(file("plan.h5"), two_rank_plan());
  const std::string missing = file("no/such/folder.h5");
  expect_refused(train(2, "plan.h5", text("--steps 1 -o ", missing)), ExitCode::bad_input, missing);
  const std::string words = text("--steps 1 -o ", file("results.h5"), " --save-weights ");
  expect_refused(train(2, "plan.h5", words + missing), ExitCode::bad_input, missing);
  expect_refused(train(2, "plan.h5", words + "''"), ExitCode::bad_input, "the name of the output is empty");
}

TEST_F(SluiceRun, never_replaces_its_plan_or_data) {
  write_plan(file("plan.h5"), two_rank_plan());
  for (const char* input : {"plan.h5", "data.h5"}) {
    const std::string before = contents(file(input));
    expect_refused(train(2, "plan.h5", text("--steps 1 -o ", file(input))), ExitCode::bad_input, "must not replace");
    EXPECT_EQ(contents(file(input)), before);
  }
}

TEST_F(SluiceRun, refuses_a_record_that_another_run_is_writing) {
  write_plan(file("plan.h5"), two_rank_plan());
  const std::string words = text("--steps 1 -o ", file("results.h5"));
  {
    const FolderLock other(parts_folder(file("results.h5")));
    expect_refused(train(2, "plan.h5", words), ExitCode::bad_input, "another run is writing");
  }
  EXPECT_EQ(train(2, "plan.h5", words).code, 0);
}

TEST_F(SluiceRun, leaves_no_parts_of_weights_that_cannot_be_written) {
  write_plan(file("plan.h5"), two_rank_plan());
  std::filesystem::create_directory(file("w.h5.rank1.part"));
  const Outcome outcome =
      train(2, "plan.h5", text("--steps 1 -o ", file("results.h5"), " --save-weights ", file("w.h5")));
  EXPECT_EQ(outcome.code, static_cast<int>(ExitCode::bad_input)) << outcome.err;
  EXPECT_EQ(outcome.times("w.h5.rank1.part"), 1) << outcome.err;
  EXPECT_FALSE(std::filesystem::exists(file("w.h5")));
  EXPECT_FALSE(std::filesystem::exists(file("w.h5.rank0.part")));
}

TEST_F(SluiceRun, ends_everywhere_when_the_loss_is_not_finite_and_keeps_what_was) {
  write_plan(file("plan.h5"), two_rank_plan());
  const Outcome outcome = run(2, text("train --plan ", file("plan.h5"), " --data ", file("data.h5"),
                                      " --steps 5 --learning-rate 1e20 -o ", file("results.h5")));
  expect_refused(outcome, ExitCode::runtime_fault, "the loss is not finite; the first layer");
  const RunResults kept = read_results(file("results.h5"));
  EXPECT_GE(kept.tables.steps.size(), 1U);
  EXPECT_FALSE(kept.merged);
}

TEST_F(SluiceRun, ends_everywhere_when_one_rank_meets_a_fault_on_the_way) {
  write_plan(file("plan.h5"), two_rank_plan());
  std::atomic<bool> ended = false;
  std::thread saboteur([&] {
    while (!ended && contents(file("err")).find("step 1/") == std::string::npos)
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    std::filesystem::resize_file(file("data.h5"), 100);  // rank 0 reads the images, rank 1 only labels
  });
  const Outcome outcome = train(2, "plan.h5", text("--steps 100000000 -o ", file("results.h5")));
  ended = true;
  saboteur.join();
  EXPECT_EQ(outcome.code, static_cast<int>(ExitCode::runtime_fault)) << outcome.err;
  EXPECT_EQ(outcome.times("sluice-run: rank 0 (world rank 0 on "), 1) << outcome.err;
  EXPECT_FALSE(std::filesystem::exists(file("results.h5")));
}

TEST_F(SluiceRun, takes_options_from_environment_and_config_file) {
  write_plan(file("plan.h5"), two_rank_plan());
  std::ofstream(file("train.ini")) << "steps = 2\nmomentum = 0.25\nseed = 4\n";
  ASSERT_EQ(setenv("SLUICE_MOMENTUM", "0.5", 1), 0);
  const Outcome outcome = run(2, text("train --plan ", file("plan.h5"), " --data ", file("data.h5"), " --config ",
                                      file("train.ini"), " --seed 9 -o ", file("results.h5")));
  unsetenv("SLUICE_MOMENTUM");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const RunHeader header = read_results(file("results.h5")).header;
  EXPECT_EQ(header.settings.at("steps"), "2");
  EXPECT_EQ(header.settings.at("momentum"), "0.5");
  EXPECT_EQ(header.settings.at("seed"), "9");
  EXPECT_EQ(run(2, text("probe --config ", file("none.ini"), " -o ", file("c.h5"))).code,
            static_cast<int>(ExitCode::bad_input));
}

TEST_F(SluiceRun, says_how_it_is_used) {
  for (const char* words :
       {"", "fly", "train --plan", "train --plan p --data d -o r", "train --plan p --data d -o r --steps 1 --epochs 1",
        "train --plan p --data d -o r --steps 0", "train --plan p --data d -o r --steps 1 --bogus 3",
        "profile --model lenet5 -o p", "train --plan p --data d -o r --steps 1 --momentum -1",
        "train --plan p --data d -o r --steps 1 --seed -1", "train --plan p --data d -o r --epochs 9223372036854775807",
        "train --plan p --data d -o r --steps 1 --learning-rate inf",
        "train --plan p --data d -o r --steps 1 --save-weights ./r",
        "profile --model lenet5 --image 28 --microbatch 1 --repeats 2147483647 -o p",
        "profile --model lenet5 --image 28 --microbatch 1 --threads 1000000 -o p"})
    EXPECT_EQ(run(2, words).code, static_cast<int>(ExitCode::usage)) << words;
  for (const char* words : {"--help", "train --help", "profile --help", "probe --help"}) {
    const Outcome help = run(2, words);
    EXPECT_EQ(help.code, 0) << words;
    EXPECT_EQ(help.out.find("usage: sluice-run"), 0U) << help.out;
    EXPECT_EQ(help.out.rfind("usage: sluice-run"), 0U) << "said more than once: " << help.out;
  }
  const Outcome version = run(1, "--version");
  EXPECT_EQ(version.code, 0);
  for (const char* part : {"HDF5", "MPICH", "oneDNN", "CUDA"})
    EXPECT_NE(version.out.find(part), std::string::npos) << part;
}

}  // namespace
}  // namespace sluice
