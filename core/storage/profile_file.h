#pragma once

#include <string>

#include "core/profile.h"
#include "core/storage/reader.h"
#include "core/storage/writer.h"

namespace sluice {

/// Reads a file of schema sluice/profile and validates it.
/// @throws Error (bad input) naming file, dataset and value
[[nodiscard]] Profile read_profile(const std::string& path);

/// @throws Error (bad input) if the profile is not valid or the path cannot be
///         written, (runtime fault) if the disk is full
void write_profile(const std::string& path, const Profile& profile, const Provenance& provenance = {});

/// The same contents in a group of another file.
[[nodiscard]] Profile read_profile(const GroupReader& group);
void write_profile(const GroupWriter& group, const Profile& profile);

}  // namespace sluice
