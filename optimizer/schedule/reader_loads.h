#pragma once

#include "optimizer/schedule/asynchronous.h"

namespace sluice {

/// Where one rank reads the dataset for all (Plan::data_reader): puts its loads into its list and into the linear
/// order, as instructions that make what others receive. A micro-batch's input (or labels) is loaded in front of what
/// precedes, on its rank, the first instruction that reads it there: so it travels while that one runs, and the reader
/// is never further ahead of those who need its data than that. For the reader's own use it is loaded right before.
/// Nothing changes where everyone reads for himself.
/// @param figure  a step's, too: then without periods
void insert_loads(const Plan& plan, EndlessFigure& figure);

}  // namespace sluice
