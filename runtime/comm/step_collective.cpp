#include "runtime/comm/step_collective.h"

#include <algorithm>

#include "core/index.h"

namespace sluice {
namespace {

constexpr std::int64_t kFloat = sizeof(float);
/// Bounds the memory for what is still to be added; small enough to stay in a cache.
constexpr std::int64_t kMostAddedBytes = 1 << 20;
/// What a lane of sends has in flight, or one piece that is larger. MPI may carry several messages a bit of each in
/// turns: all arrive when the last one does, and the first subtree waits as long as the last. Too few, and the link
/// rests (measured in docs/communication.md).
constexpr std::int64_t kMostSentBytes = 64 << 10;
constexpr int kMostReceives = 8;

}  // namespace

void PayloadMemory::add_scratch(std::int64_t begin, std::int64_t bytes) {
  scratch_.resize(static_cast<std::size_t>(bytes));
  add(scratch_.data(), begin);
}

std::byte* PayloadMemory::find(std::int64_t offset) const {
  const auto part = std::find_if(parts_.rbegin(), parts_.rend() - 1, [&](const Part& p) { return p.begin <= offset; });
  return part->data == nullptr ? nullptr : part->data + (offset - part->begin);
}

StepCollective::StepCollective(std::shared_ptr<const CollectivePart> part, PayloadMemory memory, int tag, Event ready)
    : Collective(part->bytes, tag, std::move(ready)), part_(std::move(part)), memory_(std::move(memory)) {}

void StepCollective::begin(Messenger& messenger) {
  begun_ = true;
  chunk_bytes_ = messenger.chunk_bytes();
  incomplete_ = part_->steps.size();
  std::int64_t most_added = 0;
  for (const Step& step : part_->steps) {
    pieces_left_.push_back(std::max<std::int64_t>(1, (step.bytes + piece_bytes(step) - 1) / piece_bytes(step)));
    if (step.adds && !step.sends) most_added = std::max(most_added, std::min(step.bytes, piece_bytes(step)));
  }
  addends_.resize(static_cast<std::size_t>(most_added / kFloat));
  post_what_may(messenger);
}

std::int64_t StepCollective::piece_bytes(const Step& step) const {
  if (!step.adds) return chunk_bytes_;
  return std::max(kFloat, std::min(chunk_bytes_, kMostAddedBytes) / kFloat * kFloat);
}

void StepCollective::post_what_may(Messenger& messenger) {
  for (const LaneName name : {kReceives, kSendsAcross, kSendsInside})
    for (skip_to(name, messenger); may_post(name); skip_to(name, messenger)) post_piece(name, messenger);
}

StepCollective::LaneName StepCollective::lane_of(const Step& step, const Messenger& messenger) {
  if (!step.sends) return kReceives;
  return messenger.link_to(step.peer) == LinkKind::intra_node ? kSendsInside : kSendsAcross;
}

/// Brings the lane to its next step.
void StepCollective::skip_to(LaneName name, const Messenger& messenger) {
  std::size_t& step = lanes_[name].step;
  while (step < part_->steps.size() && lane_of(part_->steps[step], messenger) != name) ++step;
}

std::int64_t StepCollective::next_bytes(const Lane& lane, const Step& step) const {
  return std::min(piece_bytes(step), step.bytes - lane.posted);
}

bool StepCollective::has_room(const Lane& lane, const Step& step) const {
  if (!step.sends) return lane.in_flight < kMostReceives;
  return lane.in_flight == 0 || lane.bytes_in_flight + next_bytes(lane, step) <= kMostSentBytes;
}

bool StepCollective::may_post(LaneName name) const {
  const Lane& lane = lanes_[name];
  if (lane.step == part_->steps.size()) return false;
  const Step& step = part_->steps[lane.step];
  if (!has_room(lane, step)) return false;
  if (step.adds && !step.sends && addends_in_use_) return false;
  return std::all_of(step.after.begin(), step.after.end(), [&](int before) { return pieces_left_[at(before)] == 0; });
}

void StepCollective::post_piece(LaneName name, Messenger& messenger) {
  Lane& lane = lanes_[name];
  const int row = static_cast<int>(lane.step);
  const Step& step = part_->steps[lane.step];
  const std::int64_t offset = step.offset + lane.posted, bytes = next_bytes(lane, step);
  const bool to_add = step.adds && !step.sends;
  if (to_add) addends_in_use_ = true;
  ++lane.in_flight;
  lane.bytes_in_flight += bytes;
  lane.posted += bytes;
  if (lane.posted == step.bytes) {
    ++lane.step;
    lane.posted = 0;
  }
  std::byte* data = to_add ? reinterpret_cast<std::byte*>(addends_.data()) : memory_.find(offset);
  messenger.post({shared_from_this(), step.sends, step.peer, data, offset, bytes, row});
}

void StepCollective::complete(Messenger& messenger, const Message& message) {
  const Step& step = part_->steps[at(message.step)];
  if (step.adds && !step.sends) add(message);
  Lane& lane = lanes_[lane_of(step, messenger)];
  --lane.in_flight;
  lane.bytes_in_flight -= message.bytes;
  if (--pieces_left_[at(message.step)] == 0) --incomplete_;
  post_what_may(messenger);
}

void StepCollective::add(const Message& message) {
  float* sums = reinterpret_cast<float*>(memory_.find(message.offset));
  const auto count = static_cast<std::size_t>(message.bytes / kFloat);
  for (std::size_t i = 0; i < count; ++i) sums[i] += addends_[i];
  addends_in_use_ = false;
}

}  // namespace sluice
