#include "optimizer/command/plan_json.h"

namespace sluice {

Json to_json(const PlanFigures& figures) {
  return {{"schedule", figures.schedule},
          {"cuts", figures.cuts},
          {"workers", figures.workers},
          {"forward_cuts", figures.forward_cuts},
          {"backward_cuts", figures.backward_cuts},
          {"weight_cuts", figures.weight_cuts},
          {"replicas", figures.replicas},
          {"recomputed_layers", figures.recomputed_layers},
          {"microbatch", figures.microbatch},
          {"microbatches", figures.microbatches},
          {"bottleneck_s", figures.bottleneck_s},
          {"bound_by", figures.bound_by},
          {"step_s", figures.step_s},
          {"peak_memory_bytes", figures.peak_memory_bytes}};
}

}  // namespace sluice
