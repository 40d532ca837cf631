#pragma once

#include <vector>

#include "optimizer/schedule/figure.h"

namespace sluice {

/// Stages of the cooperative schedule for K ranks (Yu, Park 2023): rank k updates the layers [bounds[k],
/// bounds[k+1]) and runs their backward; their forward runs on all ranks in turn, which fetch the weights for it, the
/// last stage's on rank K - 1 alone. What a backward reads of its stage's own tensors is recomputed, but for the last
/// stage, whose forward it directly follows.
/// @param bounds  K+1 positions ascending from 0 to the number of layers, all different
[[nodiscard]] std::vector<Stage> cooperative_stages(const Model& model, const std::vector<int>& bounds);

/// Stage by stage the forwards of all micro-batches, up to the last stage; then micro-batch by micro-batch its forward
/// and all backwards, from the last stage to the first, each right behind its recompute. So ranks fetch the weights of
/// one stage after the other, and the backwards form a pipeline.
[[nodiscard]] Figure cooperative(const Plan& plan, std::vector<Position> positions);

/// Forwards alone, stage by stage.
[[nodiscard]] Figure stage_by_stage(const Plan& plan, std::vector<Position> positions);

}  // namespace sluice
