#pragma once

#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "core/storage/reader.h"
#include "core/storage/writer.h"
#include "core/text.h"

/// A table of a file is a group with one dataset a column. Its columns are
/// listed once, in a function template that takes a TableWriter or a
/// TableReader, so that writer and reader cannot disagree:
///
///   template <typename Table>
///   void link_columns(Table& table) {
///     table.number("latency_s", &LinkClass::latency_s, {"s", "time of an empty message"});
///   }
///
/// A field is a pointer to a member, or a callable that returns a reference to it.
namespace sluice {

/// Type of `field` in `Row`.
template <typename Row, typename Field>
using field_t = std::remove_cvref_t<std::invoke_result_t<const Field&, const Row&>>;

template <typename Row>
class TableWriter {
 public:
  TableWriter(const GroupWriter& parent, const std::string& name, const std::vector<Row>& rows)
      : group_(parent.group(name)), rows_(rows) {}

  template <typename Field>
  void number(const std::string& name, Field field, const Meaning& meaning, Values = Values::finite) {
    std::vector<stored_t<field_t<Row, Field>>> values;
    values.reserve(rows_.size());
    for (const Row& row : rows_) values.push_back(std::invoke(field, row));
    group_.column(name, values, meaning);
  }

  /// A column that older files lack.
  template <typename Field>
  void later_number(const std::string& name, Field field, const Meaning& meaning) {
    number(name, field, meaning);
  }

  template <typename Field>
  void string(const std::string& name, Field field, const std::string& description) {
    std::vector<std::string> values;
    for (const Row& row : rows_) values.push_back(std::invoke(field, row));
    group_.strings(name, values, description);
  }

  /// An enumeration with values from 0 to `last`, which to_string() names.
  template <typename Field>
  void choice(const std::string& name, Field field, field_t<Row, Field> last, const std::string& description) {
    std::vector<std::uint8_t> values;
    values.reserve(rows_.size());
    for (const Row& row : rows_) values.push_back(static_cast<std::uint8_t>(std::invoke(field, row)));
    group_.choices(name, values, names_up_to(last), description);
  }

  /// A list of numbers per row: all of them in <name>_values, those of row r
  /// from <name>_offsets[r] to <name>_offsets[r + 1].
  template <typename Field>
  void list(const std::string& name, Field field, const Meaning& meaning) {
    field_t<Row, Field> values;
    std::vector<std::int64_t> offsets{0};
    for (const Row& row : rows_) {
      const auto& items = std::invoke(field, row);
      values.insert(values.end(), items.begin(), items.end());
      offsets.push_back(std::ssize(values));
    }
    group_.column(name + "_offsets", offsets, {"1", "begin of each row's items in " + name + "_values"});
    group_.column(name + "_values", values, meaning);
  }

 private:
  GroupWriter group_;
  const std::vector<Row>& rows_;
};

/// Reads into `rows`. The first column says how many rows there are.
template <typename Row>
class TableReader {
 public:
  TableReader(const GroupReader& parent, const std::string& name, std::vector<Row>& rows)
      : group_(parent.group(name)), rows_(rows) {}

  template <typename Field>
  void number(const std::string& name, Field field, const Meaning&, Values allowed = Values::finite) {
    using Value = field_t<Row, Field>;
    const auto values = group_.column<stored_t<Value>>(name, allowed);
    assign(name, values, field, [&](auto value) {
      if (std::is_same_v<Value, bool> && value > 1) group_.refuse(name, text("holds ", +value, ", expected 0 or 1"));
      return static_cast<Value>(value);
    });
  }

  /// Where the column is missing, all rows keep the field's default. Not the first column.
  template <typename Field>
  void later_number(const std::string& name, Field field, const Meaning& meaning) {
    if (group_.has(name)) number(name, field, meaning);
  }

  template <typename Field>
  void string(const std::string& name, Field field, const std::string&) {
    assign(name, group_.strings(name), field, [](const std::string& value) { return value; });
  }

  template <typename Field>
  void choice(const std::string& name, Field field, field_t<Row, Field> last, const std::string&) {
    assign(name, group_.choices(name, names_up_to(last)), field,
           [](std::uint8_t value) { return static_cast<field_t<Row, Field>>(value); });
  }

  template <typename Field>
  void list(const std::string& name, Field field, const Meaning&) {
    using List = field_t<Row, Field>;
    const auto offsets = group_.column<std::int64_t>(name + "_offsets");
    const auto values = group_.column<typename List::value_type>(name + "_values");
    if (offsets.empty() || offsets.front() != 0 || offsets.back() != std::ssize(values))
      group_.refuse(name + "_offsets", text("does not run from 0 to the ", values.size(), " values"));
    for (std::size_t row = 1; row < offsets.size(); ++row)
      if (offsets[row] < offsets[row - 1]) group_.refuse(name + "_offsets", text("decreases at row ", row));
    require_rows(name + "_offsets", offsets.size() - 1);
    for (std::size_t row = 0; row < rows_.size(); ++row)
      std::invoke(field, rows_[row]) = List(values.begin() + offsets[row], values.begin() + offsets[row + 1]);
  }

 private:
  void require_rows(const std::string& name, std::size_t count) {
    if (!first_column_) {
      first_column_ = name;
      rows_.resize(count);
    }
    if (count != rows_.size())
      group_.refuse(name, text("has ", count, " rows, expected ", rows_.size(), " as ", *first_column_, " has"));
  }

  template <typename Stored, typename Field, typename Convert>
  void assign(const std::string& name, const std::vector<Stored>& values, Field field, Convert convert) {
    require_rows(name, values.size());
    for (std::size_t row = 0; row < values.size(); ++row) std::invoke(field, rows_[row]) = convert(values[row]);
  }

  GroupReader group_;
  std::vector<Row>& rows_;
  std::optional<std::string> first_column_;
};

}  // namespace sluice
