#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/text.h"

/// The folder of one checkpoint; private to core/storage/checkpoint_*.cpp.
namespace sluice {

inline constexpr const char* kManifestName = "manifest.h5";

[[nodiscard]] inline std::string manifest_path(const std::string& folder) { return text(folder, "/", kManifestName); }

/// Runs `action`; what goes wrong with the files becomes a runtime fault: training, which writes them, may go on.
template <typename Action>
auto as_runtime_fault(const std::string& folder, Action action) {
  try {
    return action();
  } catch (const Error& error) {
    throw runtime_fault(error.what());
  } catch (const std::filesystem::filesystem_error& error) {
    throw runtime_fault(text(folder, ": ", error.code().message(), " (", error.path1().string(), ")"));
  }
}

/// Removes the files that a checkpoint may consist of, and what killed writers left of them, if `chosen` says yes to
/// their names.
template <typename Choose>
void remove_files(const std::string& folder, Choose chosen) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) files.push_back(entry.path());
  for (const auto& file : files)
    if ((file.extension() == ".h5" || file.extension() == ".tmp") && chosen(file.filename().string()))
      std::filesystem::remove(file);
}

}  // namespace sluice
