#pragma once

/// What files of ours hold: root attribute `schema`.
namespace sluice {

inline constexpr const char* kProfileSchema = "sluice/profile";
inline constexpr const char* kClusterSchema = "sluice/cluster";
inline constexpr const char* kPlanSchema = "sluice/plan";
inline constexpr const char* kWeightsSchema = "sluice/weights";
inline constexpr const char* kDatasetSchema = "sluice/dataset";
inline constexpr const char* kResultsSchema = "sluice/results";
inline constexpr const char* kCheckpointSchema = "sluice/checkpoint";
inline constexpr const char* kCheckpointStateSchema = "sluice/checkpoint_state";

}  // namespace sluice
