#include "core/storage/reader.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>

#include "core/storage/hdf5_calls.h"
#include "core/storage/string_map.h"
#include "core/text.h"

namespace sluice {
namespace {

/// Deflate never shrinks by more than this; a claim of more elements than the
/// bytes in the file can hold would only serve to exhaust memory.
constexpr std::int64_t kMostCompression = 1100;

Place reading(const std::string& place, const std::string& name) {
  return {ExitCode::bad_input, text(place, place.ends_with("/") || name.empty() ? "" : "/", name)};
}

const char* name_of(H5T_class_t type_class) {
  switch (type_class) {
    case H5T_INTEGER:
      return "integer";
    case H5T_FLOAT:
      return "floating point";
    case H5T_STRING:
      return "string";
    case H5T_ENUM:
      return "enumeration";
    default:
      return "other";
  }
}

/// "64-bit integer"
std::string describe(hid_t type) { return text(8 * H5Tget_size(type), "-bit ", name_of(H5Tget_class(type))); }

/// Values of type `found` fit `expected` without loss.
bool fits(hid_t found, hid_t expected) {
  const H5T_class_t type_class = H5Tget_class(found);
  return type_class == H5Tget_class(expected) && H5Tget_size(found) <= H5Tget_size(expected) &&
         (type_class != H5T_INTEGER || H5Tget_sign(found) == H5Tget_sign(expected));
}

bool is_fixed_string(hid_t type) { return H5Tget_class(type) == H5T_STRING && H5Tis_variable_str(type) == 0; }

std::string without_padding(const char* data, std::size_t width) {
  return {data, static_cast<std::size_t>(std::find(data, data + width, '\0') - data)};
}

template <typename T>
std::size_t first_not_finite(const T* values, std::size_t count) {
  return static_cast<std::size_t>(std::find_if_not(values, values + count, [](T v) { return std::isfinite(v); }) -
                                  values);
}

Handle open_file(const std::string& path) {
  use_hdf5();
  const Place place{ExitCode::bad_input, path};
  if (access(path.c_str(), R_OK) != 0) throw bad_input(text(path, ": cannot be read: ", std::strerror(errno)));
  if (H5Fis_hdf5(path.c_str()) <= 0) {
    H5Eclear2(H5E_DEFAULT);
    throw bad_input(text(path, ": is not an HDF5 file, or it is damaged"));
  }
  const Handle access = access_properties(place);
  try {
    return Handle(check(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.get()), place, "open the file"));
  } catch (const Error& error) {
    if (std::string(error.what()).find("lock file") == std::string::npos) throw;
    throw bad_input(text(error.what(), ": set HDF5_USE_FILE_LOCKING=FALSE, as no file of ours needs locks"));
  }
}

GroupReader root_of(const Handle& file, const std::string& path) {
  return {Handle(check(H5Gopen2(file.get(), "/", H5P_DEFAULT), {ExitCode::bad_input, path}, "open the root group")),
          path + ": /"};
}

/// An opened attribute of one element.
struct Attribute {
  std::string name;
  Place place;
  Handle attribute;
  Handle type;

  [[noreturn]] void refuse(const std::string& expected) const {
    throw bad_input(text(place.name, ": attribute ", name, " is ", describe(type.get()), ", expected ", expected));
  }
  void read(hid_t memory_type, void* value) const {
    check(H5Aread(attribute.get(), memory_type, value), place, "read attribute " + name);
  }
};

Attribute open_attribute(hid_t object, const std::string& name, const Place& place) {
  if (check(H5Aexists(object, name.c_str()), place, "look for attribute " + name) == 0)
    throw bad_input(text(place.name, ": attribute ", name, " is missing"));
  Handle attribute(check(H5Aopen(object, name.c_str(), H5P_DEFAULT), place, "open attribute " + name));
  Handle type(check(H5Aget_type(attribute.get()), place, "read the type of attribute " + name));
  const Handle space(check(H5Aget_space(attribute.get()), place, "read the extent of attribute " + name));
  if (H5Sget_simple_extent_npoints(space.get()) != 1)
    throw bad_input(text(place.name, ": attribute ", name, " is an array, expected one value"));
  return {name, place, std::move(attribute), std::move(type)};
}

herr_t keep_name(hid_t, const char* name, const H5L_info_t*, void* names) {
  static_cast<std::vector<std::string>*>(names)->emplace_back(name);
  return 0;
}

}  // namespace

void GroupReader::refuse(const std::string& name, const std::string& complaint) const {
  throw bad_input(text(reading(place_, name).name, ": ", complaint));
}

bool GroupReader::has(const std::string& name) const {
  const Place place = reading(place_, name);
  return check(H5Lexists(group_.get(), name.c_str(), H5P_DEFAULT), place, "look for it") > 0;
}

GroupReader GroupReader::group(const std::string& name) const {
  if (!has(name)) refuse(name, "is missing, expected a group");
  const Place place = reading(place_, name);
  return {Handle(check(H5Gopen2(group_.get(), name.c_str(), H5P_DEFAULT), place, "open the group")), place.name};
}

std::vector<std::string> GroupReader::names() const {
  std::vector<std::string> names;
  check(H5Literate(group_.get(), H5_INDEX_NAME, H5_ITER_INC, nullptr, keep_name, &names), reading(place_, ""),
        "list the group");
  return names;
}

std::string GroupReader::text_attribute(const std::string& name) const {
  const Attribute found = open_attribute(group_.get(), name, reading(place_, ""));
  if (!is_fixed_string(found.type.get())) found.refuse("one string of fixed length");
  std::vector<char> value(H5Tget_size(found.type.get()));
  found.read(found.type.get(), value.data());
  return without_padding(value.data(), value.size());
}

double GroupReader::real_attribute(const std::string& name, Values allowed) const {
  const Attribute found = open_attribute(group_.get(), name, reading(place_, ""));
  if (!fits(found.type.get(), H5T_NATIVE_DOUBLE)) found.refuse("one 64-bit floating point");
  double value = 0;
  found.read(H5T_NATIVE_DOUBLE, &value);
  if (allowed == Values::finite && !std::isfinite(value))
    refuse("", text("attribute ", name, " is ", value, ", expected a finite number"));
  return value;
}

std::int64_t GroupReader::integer(const std::string& name, std::int64_t low, std::int64_t high) const {
  const Attribute found = open_attribute(group_.get(), name, reading(place_, ""));
  if (!fits(found.type.get(), H5T_NATIVE_INT64)) found.refuse("one 64-bit integer");
  std::int64_t value = 0;
  found.read(H5T_NATIVE_INT64, &value);
  if (value < low || value > high)
    refuse("", text("attribute ", name, " is ", value, ", expected ", low, " to ", high));
  return value;
}

std::vector<std::string> GroupReader::strings(const std::string& name) const {
  Handle data = open(name);
  const Handle type(check(H5Dget_type(data.get()), reading(place_, name), "read the type"));
  if (!is_fixed_string(type.get()))
    refuse(name, text("holds ", describe(type.get()), ", expected strings of fixed length"));
  const Elements found = elements(name, std::move(data), type.get());
  require_rank_1(name, found.shape);
  const std::size_t width = H5Tget_size(type.get());
  std::vector<char> padded(found.count * width);
  read(found, padded.data());
  std::vector<std::string> values;
  for (std::size_t i = 0; i < found.count; ++i) values.push_back(without_padding(padded.data() + i * width, width));
  return values;
}

std::vector<std::uint8_t> GroupReader::choices(const std::string& name, const std::vector<std::string>& names) const {
  const Place place = reading(place_, name);
  Handle data = open(name);
  const Handle type(check(H5Dget_type(data.get()), place, "read the type"));
  if (H5Tget_class(type.get()) != H5T_ENUM)
    refuse(name, text("holds ", describe(type.get()), ", expected an enumeration"));
  const Handle expected = choice_type(names, place);
  const Elements found = elements(name, std::move(data), expected.get());
  require_rank_1(name, found.shape);
  std::vector<std::uint8_t> values(found.count);
  read(found, values.data());  // converts by name; a name that is not known becomes 255
  for (std::size_t i = 0; i < values.size(); ++i)
    if (values[i] >= names.size())
      refuse(name, text("row ", i, " holds a value that is not known, expected one of ", names.front(), " to ",
                        names.back()));
  return values;
}

std::int64_t GroupReader::contiguous_bytes(const std::string& name, Shape& shape) const {
  const Place place = reading(place_, name);
  Elements found = open(name, Number::uint8);
  const Handle properties(check(H5Dget_create_plist(found.data.get()), place, "read the layout"));
  const haddr_t offset = H5Dget_offset(found.data.get());
  if (H5Pget_layout(properties.get()) != H5D_CONTIGUOUS || offset == HADDR_UNDEF)
    refuse(name, "is chunked or empty, expected one contiguous piece");
  shape = std::move(found.shape);
  return static_cast<std::int64_t>(offset);
}

Handle GroupReader::open(const std::string& name) const {
  if (!has(name)) refuse(name, "is missing, expected a dataset");
  return Handle(check(H5Dopen2(group_.get(), name.c_str(), H5P_DEFAULT), reading(place_, name), "open the dataset"));
}

GroupReader::Elements GroupReader::open(const std::string& name, Number number) const {
  Handle data = open(name);
  const Handle type(check(H5Dget_type(data.get()), reading(place_, name), "read the type"));
  const hid_t expected = memory_type(number);
  if (!fits(type.get(), expected))
    refuse(name, text("holds ", describe(type.get()), ", expected ", describe(expected)));
  return elements(name, std::move(data), expected);
}

GroupReader::Elements GroupReader::elements(const std::string& name, Handle data, std::int64_t memory_type) const {
  const Place place = reading(place_, name);
  const Handle space(check(H5Dget_space(data.get()), place, "read the extent"));
  const int rank = check(H5Sget_simple_extent_ndims(space.get()), place, "read the rank");
  std::vector<hsize_t> extents(static_cast<std::size_t>(rank));
  check(H5Sget_simple_extent_dims(space.get(), extents.data(), nullptr), place, "read the extent");
  const double bytes =
      static_cast<double>(H5Sget_simple_extent_npoints(space.get())) * static_cast<double>(H5Tget_size(memory_type));
  const auto held = static_cast<double>(H5Dget_storage_size(data.get()));
  if (bytes > held * static_cast<double>(kMostCompression))
    refuse(name, text("claims ", bytes, " bytes of values, but only ", held, " are stored"));
  Elements found{std::move(data), memory_type, Shape(extents.begin(), extents.end()), 0, name};
  found.count = static_cast<std::size_t>(H5Sget_simple_extent_npoints(space.get()));
  return found;
}

void GroupReader::read(const Elements& elements, void* values) const {
  if (elements.count == 0) return;
  check(H5Dread(elements.data.get(), elements.memory_type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values),
        reading(place_, elements.name), "read the dataset");
}

void GroupReader::require_finite(const Elements& elements, const float* values, std::size_t count) const {
  const std::size_t bad = first_not_finite(values, count);
  if (bad < count) refuse(elements.name, text("element ", bad, " is ", values[bad], ", expected a finite number"));
}

void GroupReader::require_finite(const Elements& elements, const double* values, std::size_t count) const {
  const std::size_t bad = first_not_finite(values, count);
  if (bad < count) refuse(elements.name, text("element ", bad, " is ", values[bad], ", expected a finite number"));
}

void GroupReader::require_rank_1(const std::string& name, const Shape& shape) const {
  if (shape.size() != 1) refuse(name, text("has rank ", shape.size(), ", expected 1"));
}

FileReader::FileReader(const std::string& path, const std::string& schema) : path_(path), file_(open_file(path)) {
  const GroupReader root = this->root();
  const std::string found = root.text_attribute("schema");
  if (found != schema) throw bad_input(text(path, ": holds '", found, "', expected '", schema, "'"));
  const int version = root.integer_attribute<int>("schema_version");
  if (version != kSchemaVersion)
    throw bad_input(text(path, ": schema_version is ", version, ", this program reads ", kSchemaVersion,
                         ": write the file anew, or use the version that wrote it (attribute creator)"));
  const std::string features = root.text_attribute("features");
  if (!features.empty())
    throw bad_input(text(path, ": needs the features '", features, "', which this program does not know: update it"));
  if (root.integer_attribute<int>("complete") != 1) throw bad_input(text(path, ": is not complete: write it anew"));
}

GroupReader FileReader::root() const { return root_of(file_, path_); }

std::string schema_of(const std::string& path) {
  const Handle file = open_file(path);
  return root_of(file, path).text_attribute("schema");
}

Provenance read_provenance(const std::string& path) {
  const Handle file = open_file(path);
  const GroupReader group = root_of(file, path).group("provenance");
  const std::vector<std::string> command_line = group.strings("command_line");
  if (command_line.size() != 1) group.refuse("command_line", text("has ", command_line.size(), " rows, expected 1"));
  return {command_line.front(), read_string_map(group, "parameters")};
}

}  // namespace sluice
