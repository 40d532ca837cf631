#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/storage/table.h"

namespace sluice {

using StringMap = std::map<std::string, std::string>;

template <typename Table>
void string_map_columns(Table table) {
  table.string(
      "name", [](auto& entry) -> auto& { return entry.first; }, "name of a resolved option");
  table.string(
      "value", [](auto& entry) -> auto& { return entry.second; }, "its value");
}

/// Writes a table of names and values.
inline void write_string_map(const GroupWriter& parent, const std::string& name, const StringMap& map) {
  const std::vector<std::pair<std::string, std::string>> rows(map.begin(), map.end());
  string_map_columns(TableWriter(parent, name, rows));
}

[[nodiscard]] inline StringMap read_string_map(const GroupReader& parent, const std::string& name) {
  std::vector<std::pair<std::string, std::string>> rows;
  string_map_columns(TableReader(parent, name, rows));
  return {rows.begin(), rows.end()};
}

}  // namespace sluice
