#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/asynchronous.h"
#include "core/plan.h"
#include "core/storage/checkpoint_files.h"
#include "core/timeline.h"
#include "runtime/comm/communicator.h"
#include "runtime/device/device.h"
#include "runtime/engine/clock.h"
#include "runtime/engine/data_loader.h"
#include "runtime/engine/fetch_slots.h"
#include "runtime/engine/loss.h"
#include "runtime/engine/value_buffers.h"
#include "runtime/nn/layer_runtime.h"

namespace sluice {

/// What one run of a program left on this rank.
struct ProgramRun {
  RankTimeline timeline;      ///< times since the program's begin on this rank
  std::int64_t begin_ns = 0;  ///< on the rank's clock
  std::int64_t duration_ns = 0;
  /// By micro-batch (asynchronous: counted from the fill): those whose loss layer ran forward here.
  std::map<int, MicrobatchLoss> losses;
};

/// Which run of a program: random numbers, scaling and updates follow from it.
struct RunContext {
  std::int64_t step = 0;  ///< whose batch begins at the program's base
  int period = 0;         ///< asynchronous: runs of "steady" since the fill, before this program
  bool training = true;
  /// Wait for the device after each instruction, so that instruction times are the device's and not the queue's.
  bool settle_each = false;
};

struct ExecutorSettings {
  std::uint64_t seed = 0;
  SgdSettings sgd;
};

/// The layers with weights that `rank` is the first to update, ascending: each is one rank's. All who update a layer
/// hold the same weights and momentum.
[[nodiscard]] std::vector<LayerId> saved_layers(const Plan& plan, Rank rank);

/// Walks the instruction list of one rank; nothing else decides what runs.
/// Never assumes that enqueued work is done: order comes from the stream, from
/// the events handed to the communicator, and from waits.
class Executor {
 public:
  /// Allocates everything that any of the plan's programs needs.
  /// @param plan, device, comm, data, clock  must outlive it; `plan` has passed verify() and require_executable()
  /// @throws Error (runtime fault) if memory is short, (bad input) if a layer has no kernel.
  Executor(const Plan& plan, Device& device, Communicator& comm, DataLoader& data, const StepClock& clock,
           const ExecutorSettings& settings);

  /// Sets all weights of this rank to their initial values.
  void initialise();

  /// One pass over this rank's list, on the batches that `data` holds. On return all work is done, but what
  /// asynchronous programs have started and the next one waits for. Each "fill" begins with the newest weights.
  [[nodiscard]] ProgramRun run(const Program& program, const RunContext& context);

  /// The first layer whose output, as far as it is still held, has a value that is not finite.
  [[nodiscard]] std::optional<LayerId> first_layer_not_finite();

  /// The masters of every layer whose weights this rank keeps (host memory).
  [[nodiscard]] std::map<LayerId, std::vector<float>> weights();

  /// Masters and momentum of this rank's saved_layers(), where the pipeline is empty.
  [[nodiscard]] LayerStates state();
  /// The layers with weights that this rank keeps, by name: it needs their states.
  [[nodiscard]] std::vector<std::string> kept_layers() const;
  /// Sets weights, and momentum where it is kept and given, of all kept_layers(), before the first run. Others that
  /// are given are left.
  /// @throws Error (bad input) naming layers and parameters that are missing, too many, or of another shape.
  void load(const LayerStates& states);

  /// Everything allocated on the device [B].
  [[nodiscard]] std::int64_t allocated_bytes() const;

 private:
  /// A fault in `work` also names the instruction at hand.
  void name_faults(const std::function<void()>& work) const;
  /// The transfer under way with that tag: often another than that of the instruction at hand.
  [[nodiscard]] std::string describe_transfer(int tag) const;
  void execute(const Instruction& instruction);
  void load_input(int microbatch);
  void load_labels(int microbatch);
  [[nodiscard]] Event copy_in(TensorKind kind, const void* data, int microbatch);
  void forward(const Instruction& instruction);   ///< and recompute
  void backward(const Instruction& instruction);  ///< whole, or one of its halves
  void start_multicast(const Instruction& instruction);
  void start_all_reduce(const Instruction& instruction);
  void wait(const Instruction& instruction);
  [[nodiscard]] void* payload(const Instruction& instruction) const;
  [[nodiscard]] int tag(int transfer, int microbatch) const;
  void optimizer_step(const Instruction& instruction);

  /// With micro-batch and version counted from the fill; none if it is left out.
  [[nodiscard]] std::optional<Instruction> counted(const Instruction& instruction) const;
  /// Of the weights with which a compute runs the layer.
  [[nodiscard]] int version(const Instruction& compute, LayerId layer) const;

  /// The tensors of `reads` in the places where the kernel of `layer` looks for them.
  void bind(LayerMemory& memory, LayerId layer, std::span<const TensorId> reads, int microbatch) const;
  /// Where the gradient with respect to `tensor` lies: its slot, or `inner` if it never leaves
  /// its backward stage; null if there is none.
  [[nodiscard]] void* gradient(TensorId tensor, int microbatch, void* inner) const;
  [[nodiscard]] void* value(const ValueClass& value, int microbatch) const;
  [[nodiscard]] void* slot(TensorId tensor, int microbatch) const;
  [[nodiscard]] MicrobatchContext context(int microbatch) const;
  void settle(const Event& event);
  [[nodiscard]] std::map<int, MicrobatchLoss> losses() const;
  [[nodiscard]] bool is_finite(const Buffer& buffer);

  const Plan& plan_;
  const Model& model_;
  Device& device_;
  Communicator& comm_;
  DataLoader& data_;
  const StepClock& clock_;
  ExecutorSettings settings_;

  std::vector<std::vector<TensorId>> made_;  ///< tensors by producer
  std::vector<TensorId> input_of_;           ///< by layer
  std::vector<int> gradient_stage_;          ///< by tensor: the stage that makes the gradient of it, or kNone
  std::vector<std::shared_ptr<const CollectivePart>> parts_;  ///< by transfer; null: not a member
  int window_;                                                ///< never are more micro-batches in flight
  std::optional<WeightVersions> versions_;                    ///< of asynchronous plans
  int versions_per_steady_ = 0;
  float loss_scale_ = 0;  ///< 1 / samples of an update

  std::map<LayerId, LayerRuntime> layers_;
  FetchSlots fetch_slots_;
  ValueBuffers buffers_;
  Buffer workspace_;
  /// Gradients between the layers of one backward stage: a layer reads one and writes the other.
  std::pair<Buffer, Buffer> scratch_;
  std::vector<float> staged_images_;         ///< one micro-batch on its way to the device
  std::vector<std::int32_t> staged_labels_;  ///< likewise
  Event images_copied_, labels_copied_;

  // Of the program run that is under way:
  const Program* program_ = nullptr;
  bool counts_from_fill_ = false;
  int index_ = 0;  ///< of the instruction at hand
  RunContext run_;
  RankTimeline timeline_;
  std::map<std::pair<int, int>, Operation> operations_;  ///< by transfer and micro-batch
  std::vector<bool> has_gradient_;                       ///< by layer: a micro-batch has contributed to its update
  std::map<int, std::vector<float>> losses_;             ///< by micro-batch (N, 2): loss and 1 if right, per sample

  /// Last, so that it is gone before the memory that its work may still use, after a failure.
  std::unique_ptr<Stream> stream_;
};

}  // namespace sluice
