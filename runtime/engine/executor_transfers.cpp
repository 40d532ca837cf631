// An executor's starts and waits of transfers.
#include <algorithm>

#include "core/index.h"
#include "core/text.h"
#include "runtime/engine/executor.h"
#include "runtime/engine/instruction_text.h"

namespace sluice {

/// Where this rank holds what a multicast carries.
void* Executor::payload(const Instruction& instruction) const {
  const Transfer& transfer = plan_.transfers[at(instruction.transfer)];
  if (transfer.payload == Payload::weights) return layers_.at(transfer.layer).masters(instruction.version);
  return value({transfer.payload, transfer.tensor, transfer.stage}, instruction.microbatch);
}

// Micro-batches that are a window apart share a tag: no rank has both in flight, and MPI keeps the order of messages.
int Executor::tag(int transfer, int microbatch) const { return transfer * window_ + std::max(microbatch, 0) % window_; }

std::string Executor::describe_transfer(int tag) const {
  for (const auto& [key, operation] : operations_)
    if (const auto [transfer, microbatch] = key; this->tag(transfer, microbatch) == tag && !operation.done())
      return text("T", transfer, " (", describe(plan_, plan_.transfers[at(transfer)], microbatch), ")");
  return "a transfer";
}

void Executor::start_multicast(const Instruction& instruction) {
  const Transfer& transfer = plan_.transfers[at(instruction.transfer)];
  if (transfer.payload == Payload::weights)
    if (LayerRuntime& layer = layers_.at(transfer.layer); layer.versions() == 0) {
      const auto [masters, packed] = fetch_slots_.find(*program_, transfer.layer);
      layer.place(masters, packed);
    }
  // One event serves both ends: at the root the payload is computed, elsewhere
  // the slot's last reader has run, once everything enqueued so far is done.
  operations_.emplace(std::pair{instruction.transfer, instruction.microbatch},
                      comm_.start(parts_[at(instruction.transfer)], payload(instruction),
                                  tag(instruction.transfer, instruction.microbatch), stream_->record()));
}

void Executor::start_all_reduce(const Instruction& instruction) {
  const LayerId id = plan_.transfers[at(instruction.transfer)].layer;
  LayerRuntime& layer = layers_.at(id);
  if (!has_gradient_[at(id)]) layer.clear_gradients(*stream_);  // a replica without a micro-batch adds nothing
  operations_.emplace(std::pair{instruction.transfer, instruction.microbatch},
                      comm_.start(parts_[at(instruction.transfer)], layer.gradients(),
                                  tag(instruction.transfer, instruction.microbatch), stream_->record()));
}

void Executor::wait(const Instruction& instruction) {
  const auto operation = operations_.find({instruction.transfer, instruction.microbatch});
  comm_.wait(operation->second);
  for (std::size_t link = 0; link < timeline_.sent_bytes.size(); ++link) {
    timeline_.sent_bytes[link] += operation->second.sent_bytes()[link];
    timeline_.received_bytes[link] += operation->second.received_bytes()[link];
  }
  operations_.erase(operation);
  const Transfer& transfer = plan_.transfers[at(instruction.transfer)];
  if (transfer.payload == Payload::weights && plan_.groups[at(transfer.group)].root != comm_.rank())
    layers_.at(transfer.layer).pack(*stream_, instruction.version);
}

}  // namespace sluice
