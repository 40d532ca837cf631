#include "runtime/engine/instruction_text.h"

#include "core/index.h"
#include "core/text.h"

namespace sluice {

std::string describe(const Plan& plan, const Transfer& transfer, int microbatch) {
  return text(to_string(transfer.payload), " of ", payload_name(plan, transfer), ", ",
              microbatch == kNone ? std::string() : text("micro-batch ", microbatch, ", "), transfer.bytes,
              " bytes by ", to_string(transfer.route.algorithm));
}

std::string describe(const Plan& plan, const Program& program, Rank rank, int index, std::int64_t step) {
  const std::vector<Instruction>& list = program.ranks[at(rank)];
  const Instruction& instruction = list[at(index)];
  std::string what = to_string(instruction.op);
  if (instruction.transfer != kNone)
    what += "; " + describe(plan, plan.transfers[at(instruction.transfer)], instruction.microbatch);
  return text("step ", step, ", program ", program.name, ", instruction ", index, " of ", list.size(), ", ",
              cell(plan, instruction), " (", what, ")");
}

}  // namespace sluice
