#include <charconv>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <limits>
#include <optional>

#include "core/error.h"
#include "core/prediction.h"
#include "core/storage/folder_lock.h"
#include "core/text.h"
#include "runtime/engine/agreement.h"
#include "runtime/engine/command/commands.h"
#include "runtime/engine/command/devices.h"
#include "runtime/engine/launch.h"
#include "runtime/engine/log.h"
#include "runtime/engine/resume.h"
#include "runtime/engine/start.h"
#include "runtime/engine/stop_request.h"
#include "runtime/engine/trainer.h"
#include "runtime/engine/weights_output.h"

namespace sluice {

namespace po = boost::program_options;

namespace {

struct TrainOptions {
  std::string plan, data, output, device;
  std::optional<std::string> weights, init_from;
  std::int64_t epochs = 0, seed = 0;
  int threads = 1;
  bool remap = false, verify_transfers = false, resume = false;
  SgdSettings sgd;
  CheckpointSettings checkpoints;
  TrainerSettings trainer;
};

po::options_description options_table(TrainOptions& options, const Communicator& world) {
  po::options_description table("Trains a model by a plan. Options");
  auto add = table.add_options();
  add("plan", po::value(&options.plan)->required(), "plan to run");
  add("data", po::value(&options.data)->required(),
      "dataset to learn from; read by every rank that needs it, or by the plan's data reader alone");
  add("steps", po::value(&options.trainer.steps), "steps to train; or --epochs");
  add("epochs", po::value(&options.epochs), "passes over the training part; the last partial batch is dropped");
  add("seed", po::value(&options.seed)->default_value(1), "decides weights, order and dropout");
  add_threads(table, options.threads);
  add("learning-rate", po::value(&options.sgd.learning_rate)->default_value(0.01F, "0.01"), "of SGD");
  add("momentum", po::value(&options.sgd.momentum)->default_value(0), "of SGD");
  add("weight-decay", po::value(&options.sgd.weight_decay)->default_value(0), "of SGD");
  add("output,o", po::value(&options.output)->required(), "results to write");
  add("save-weights", po::value<std::string>(), "also write the trained weights to this file");
  add("evaluate-every", po::value(&options.trainer.evaluate_every),
      "epochs between evaluations on the test part, 0: none; default 1 with --epochs, else 0");
  add("record-every", po::value(&options.trainer.record_every)->default_value(10),
      "record the times of all instructions in each such step");
  add("checkpoint-every", po::value<std::string>(),
      "steps (100) or seconds (600s) between checkpoints, and one at the end; default none");
  add("keep", po::value(&options.checkpoints.keep)->default_value(2), "checkpoints to keep: the newest");
  add("checkpoints", po::value(&options.checkpoints.folder), "folder of checkpoints; default RESULTS.checkpoints");
  add("resume", po::bool_switch(&options.resume),
      "go on from the newest checkpoint that is whole; begin anew if there is none");
  add("init-from", po::value<std::string>(), "begin with the weights of this file (sluice export weights)");
  add("remap", po::bool_switch(&options.remap), "run although the job groups its ranks by node in another way");
  add("verify-transfers", po::bool_switch(&options.verify_transfers),
      "compare a checksum of every message, and end the job where one was corrupted");
  add("device", po::value(&options.device)->default_value("host"), "host, or fake (asynchronous, for tests)");
  add_wait_limit(table, world);
  return table;
}

/// "100": steps, "600s": seconds.
void parse_checkpoint_every(const std::string& value, CheckpointSettings& settings) {
  const bool seconds = value.ends_with('s');
  const char* const end = value.data() + value.size() - (seconds ? 1 : 0);
  const auto [rest, code] = seconds ? std::from_chars(value.data(), end, settings.every_s)
                                    : std::from_chars(value.data(), end, settings.every_steps);
  const bool sane = seconds ? settings.every_s > 0 && std::isfinite(settings.every_s) : settings.every_steps > 0;
  if (code != std::errc{} || rest != end || !sane)
    throw usage_error(text("--checkpoint-every is '", value, "', expected steps (100) or seconds (600s)"));
}

void check_checkpoints(TrainOptions& options, const po::variables_map& values) {
  if (const auto every = optional_value<std::string>(values, "checkpoint-every"))
    parse_checkpoint_every(*every, options.checkpoints);
  require_within("keep", options.checkpoints.keep, 1);
  if (options.checkpoints.folder.empty()) options.checkpoints.folder = options.output + ".checkpoints";
  options.init_from = optional_value<std::string>(values, "init-from");
}

void check(TrainOptions& options, const po::variables_map& values) {
  if (values.count("steps") == values.count("epochs")) throw usage_error("give either --steps or --epochs");
  constexpr double kMostEpochs = 1e9, kMostRate = std::numeric_limits<float>::max();
  if (values.count("steps") > 0) require_within("steps", static_cast<double>(options.trainer.steps), 1);
  if (values.count("epochs") > 0) require_within("epochs", static_cast<double>(options.epochs), 1, kMostEpochs);
  if (values.count("evaluate-every") == 0) options.trainer.evaluate_every = options.epochs > 0 ? 1 : 0;
  require_within("evaluate-every", static_cast<double>(options.trainer.evaluate_every), 0, kMostEpochs);
  require_within("record-every", static_cast<double>(options.trainer.record_every), 1);
  require_within("seed", static_cast<double>(options.seed), 0);
  options.trainer.seed = static_cast<std::uint64_t>(options.seed);
  require_within("learning-rate", options.sgd.learning_rate, 0, kMostRate);
  require_within("momentum", options.sgd.momentum, 0, kMostRate);
  require_within("weight-decay", options.sgd.weight_decay, 0, kMostRate);
  check_checkpoints(options, values);
  options.weights = optional_value<std::string>(values, "save-weights");
  const auto resolved = [](const std::string& path) { return std::filesystem::absolute(path).lexically_normal(); };
  if (options.weights && !options.weights->empty() && resolved(*options.weights) == resolved(options.output))
    throw usage_error(text("--output and --save-weights both name ", options.output, ": name two files"));
  for (const std::string& taken : {options.output, parts_folder(options.output), options.weights.value_or("")})
    if (!taken.empty() && resolved(options.checkpoints.folder) == resolved(taken))
      throw usage_error(text("--checkpoints names ", taken, ", which holds something else: name another folder"));
}

RunHeader header(const TrainOptions& options, const Provenance& provenance, const Plan& plan, const Device& device,
                 const Timeline& predicted, std::int64_t first_step) {
  RunHeader header;
  header.plan = plan;
  header.predicted = predicted;
  header.seed = options.seed;
  header.threads = options.threads;
  header.device = device.fingerprint();
  header.started = timestamp();
  header.command_line = provenance.command_line;
  header.settings = provenance.parameters;
  header.first_step = first_step;
  if (const char* job = std::getenv("SLURM_JOB_ID")) header.job = job;
  return header;
}

/// What every checkpoint of this run says.
CheckpointManifest conditions(const TrainOptions& options, const Provenance& provenance, const Plan& plan,
                              const DataLoader& data, const Device& device) {
  CheckpointManifest conditions;
  conditions.seed = options.seed;
  conditions.samples = data.samples(Split::train);
  conditions.microbatch = plan.profile.model.microbatch;
  conditions.microbatches = plan.microbatches;
  conditions.threads = options.threads;
  conditions.ranks = static_cast<int>(plan.cluster.ranks.size());
  conditions.device = device.fingerprint();
  conditions.model = plan.profile.model.name;
  conditions.schedule = plan.schedule;
  conditions.command_line = provenance.command_line;
  conditions.settings = provenance.parameters;
  return conditions;
}

/// The checkpoint to go on from, if that is wanted and there is one. Collective.
std::optional<CheckpointManifest> find_checkpoint(Communicator& comm, const TrainOptions& options,
                                                  const CheckpointManifest& now, const Model& model) {
  const std::string& folder = options.checkpoints.folder;
  if (!options.resume) {
    on_rank_zero(comm, [&] { require_no_checkpoint(folder); });
    return std::nullopt;
  }
  const std::optional<CheckpointManifest> found = agree_on_checkpoint(comm, folder);
  on_rank_zero(comm, [&] {
    if (!found) return log_line(text(folder, " holds no checkpoint: training begins anew"));
    const std::string newest = checkpoint_folder(folder, found->step);
    require_same_training(newest, *found, now, model);
    if (found->step > options.trainer.steps)
      throw bad_input(text(newest, " has more steps than the ", options.trainer.steps,
                           " that are asked for: raise --steps or --epochs"));
    log_line(text("goes on from ", newest));
    for (const std::string& line : differences(*found, now)) log_line(line);
  });
  return found;
}

/// Weights and momentum to begin with. Collective.
void set_weights(Communicator& comm, Executor& executor, const TrainOptions& options, const Model& model,
                 const std::optional<CheckpointManifest>& checkpoint) {
  if (checkpoint) {
    if (options.init_from && comm.rank() == 0)
      log_line(text("the checkpoint's weights count, not those of ", *options.init_from));
    return load_checkpoint(comm, executor, checkpoint_folder(options.checkpoints.folder, checkpoint->step),
                           *checkpoint);
  }
  collectively(comm, [&] {
    if (options.init_from)
      load_weights(executor, model, *options.init_from);
    else
      executor.initialise();
  });
}

/// Two runs must not write checkpoints into one folder. On rank 0, unless it has the lock; nobody else is in a folder
/// that is not there. Collective. @throws AgreedError (bad input) if another run does
void lock_checkpoints(Communicator& comm, const std::string& folder, std::unique_ptr<FolderLock>& lock) {
  on_rank_zero(comm, [&] {
    if (!lock && std::filesystem::is_directory(folder)) lock = std::make_unique<FolderLock>(folder);
  });
}

AgreedError stopped(const TrainingSummary& summary, const TrainOptions& options, std::int64_t newest) {
  const std::string stop = text("stopped by ", signal_name(summary.stop_signal), " after step ", summary.steps, " of ",
                                options.trainer.steps, ": ");
  if (newest == 0) return {ExitCode::preempted, stop + "there is no checkpoint, --resume begins anew"};
  return {ExitCode::preempted, text(stop, "go on from ", checkpoint_folder(options.checkpoints.folder, newest),
                                    " with the same words and --resume")};
}

template <typename T>
std::string text_or_none(const std::optional<T>& value) {
  return value ? text(*value) : "none";
}

void warn_of_other_device(Communicator& comm, const Device& device, const Profile& profile, int threads) {
  if (comm.rank() != 0) return;
  if (device.fingerprint() != profile.device)
    log_line(text("warning: the plan's profile was measured on '", profile.device, "', this is '", device.fingerprint(),
                  "': predicted times may be off"));
  if (profile.threads != threads)
    log_line(text("warning: the plan's profile was measured with ", profile.threads, " threads per rank, this runs ",
                  threads, ": predicted times may be off"));
}

/// After a fault, too, what was recorded is on disk. What MPI may still read and write stays in memory until the
/// process ends: messages are under way.
TrainingSummary train(Trainer& trainer, Recorder& recorder, std::unique_ptr<Executor>& executor,
                      std::unique_ptr<Device>& device) {
  try {
    return trainer.train();
  } catch (const AgreedError&) {
    throw;
  } catch (const Error&) {
    (void)executor.release();
    (void)device.release();
    recorder.flush();
    throw;
  }
}

}  // namespace

void train_command(Communicator& world, const Words& words) {
  StopRequest stop;
  TrainOptions options;
  const CommandSyntax syntax{"sluice-run train --plan PLAN --data DATA (--steps N | --epochs E) -o RESULTS",
                             options_table(options, world),
                             {}};
  const auto values =
      parse_everywhere(world, syntax, words, [&](const po::variables_map& given) { check(options, given); });
  if (!values) return;

  // Nobody trains for hours to learn that the result cannot be written.
  on_rank_zero(world, [&] {
    check_writable(options.output, kResultsSchema);
    if (options.weights) check_writable(*options.weights, kWeightsSchema);
  });
  arrange_ranks(world, options.device, options.threads, std::getenv);
  PlacedPlan placed = start_plan(world, options.plan, options.remap);
  const Plan& plan = placed.plan;
  Communicator& comm = placed.comm;
  if (options.verify_transfers) comm.verify_transfers();
  StepClock clock;
  std::unique_ptr<Device> device;
  const std::unique_ptr<DataLoader> data = open_data(comm, options.data, plan);
  std::unique_ptr<Executor> executor;
  collectively(comm, [&] {
    device = create_device(options.device, options.threads, options.trainer.seed);
    if (options.epochs > 0)
      options.trainer.steps = options.epochs * (data->samples(Split::train) / data->global_batch());
  });
  const Provenance provenance{command_line("sluice-run train", words), resolved_options(*values)};
  const CheckpointManifest conditions = sluice::conditions(options, provenance, plan, *data, *device);
  const Model& model = plan.profile.model;
  std::unique_ptr<FolderLock> lock;
  lock_checkpoints(comm, options.checkpoints.folder, lock);  // from now on what is found is the newest
  const std::optional<CheckpointManifest> checkpoint = find_checkpoint(comm, options, conditions, model);
  options.trainer.first_step = checkpoint ? checkpoint->step : 0;
  collectively(comm, [&] {
    require_long_stretches(plan, *data, options.trainer);
    executor = std::make_unique<Executor>(plan, *device, comm, *data, clock,
                                          ExecutorSettings{options.trainer.seed, options.sgd});
  });
  set_weights(comm, *executor, options, model, checkpoint);
  if (options.checkpoints.regular()) make_checkpoints_folder(comm, options.checkpoints.folder);
  lock_checkpoints(comm, options.checkpoints.folder, lock);
  warn_of_other_device(comm, *device, plan.profile, options.threads);

  const Prediction predicted = predict_step(plan);
  Recorder recorder(comm, clock, options.output,
                    header(options, provenance, plan, *device, predicted.timeline, options.trainer.first_step),
                    options.resume);
  Checkpointer checkpointer(plan, comm, *executor, recorder, clock, stop, options.checkpoints, conditions,
                            options.trainer.first_step);
  Trainer trainer(plan, comm, *data, *executor, recorder, checkpointer, clock, options.trainer);
  const TrainingSummary summary = train(trainer, recorder, executor, device);
  if (summary.stop_signal != 0) {
    recorder.flush();
    throw stopped(summary, options, checkpointer.newest());
  }
  recorder.finish();
  if (options.weights) save_weights(comm, *executor, *options.weights, provenance);
  if (world.rank() == 0)
    std::cout << "steps=" << options.trainer.steps << " loss=" << text_or_none(summary.loss)
              << " accuracy=" << (summary.evaluation ? text(summary.evaluation->accuracy) : "none")
              << " step_s=" << text_or_none(summary.step_s) << " predicted_step_s=" << predicted.step_s << '\n';
}

}  // namespace sluice
