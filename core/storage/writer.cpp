#include "core/storage/writer.h"

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <new>

#include "core/storage/hdf5_calls.h"
#include "core/storage/reader.h"
#include "core/storage/string_map.h"
#include "core/text.h"

namespace sluice {
namespace {

constexpr std::int64_t kChunkBytes = 1 << 20;
constexpr unsigned kDeflateLevel = 4;

Place writing(const std::string& place, const std::string& name) {
  return {ExitCode::runtime_fault, text(place, place.ends_with("/") ? "" : "/", name)};
}

Handle simple_space(const Shape& shape, const Place& place) {
  const std::vector<hsize_t> extents(shape.begin(), shape.end());
  return Handle(
      check(H5Screate_simple(static_cast<int>(shape.size()), extents.data(), nullptr), place, "make a data space"));
}

/// One chunk holds whole rows; a checksum guards what deflate made.
void choose_chunks(hid_t properties, hid_t type, const Shape& shape, Layout layout, const Place& place) {
  const std::int64_t row_bytes =
      static_cast<std::int64_t>(H5Tget_size(type)) * element_count(Shape(shape.begin() + 1, shape.end()));
  std::vector<hsize_t> chunk(shape.begin(), shape.end());
  for (hsize_t& extent : chunk) extent = std::max<hsize_t>(extent, 1);
  const std::int64_t rows = std::max<std::int64_t>(kChunkBytes / std::max<std::int64_t>(row_bytes, 1), 1);
  chunk[0] = std::min(chunk[0], static_cast<hsize_t>(rows));
  check(H5Pset_chunk(properties, static_cast<int>(chunk.size()), chunk.data()), place, "choose chunks");
  if (layout == Layout::compressed) {
    check(H5Pset_shuffle(properties), place, "choose the shuffle filter");
    check(H5Pset_deflate(properties, kDeflateLevel), place, "choose compression");
  }
  check(H5Pset_fletcher32(properties), place, "choose checksums");
}

void write_attribute(hid_t object, const std::string& name, hid_t type, const void* value, const Place& place) {
  const Handle space(check(H5Screate(H5S_SCALAR), place, "make a data space"));
  const Handle attribute(check(H5Acreate2(object, name.c_str(), type, space.get(), H5P_DEFAULT, H5P_DEFAULT), place,
                               "create attribute " + name));
  check(H5Awrite(attribute.get(), type, value), place, "write attribute " + name);
}

void write_text_attribute(hid_t object, const std::string& name, const std::string& value, const Place& place) {
  // HDF5 has no strings of size 0; c_str() ends with the one zero that stands for the empty one.
  const Handle type = string_type(std::max<std::size_t>(value.size(), 1), place);
  write_attribute(object, name, type.get(), value.c_str(), place);
}

std::string now_iso8601() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

void write_provenance(const GroupWriter& group, const Provenance& provenance) {
  group.strings("command_line", {provenance.command_line}, "the command that wrote this file");
  write_string_map(group, "parameters", provenance.parameters);
}

GroupWriter root_of(const Handle& file, const std::string& path) {
  const Place place{ExitCode::runtime_fault, path};
  return {Handle(check(H5Gopen2(file.get(), "/", H5P_DEFAULT), place, "open the root group")), path + ": /"};
}

void write_root(const GroupWriter& root, const std::string& schema, const Provenance& provenance) {
  root.attribute("schema", schema);
  root.attribute("schema_version", kSchemaVersion);
  root.attribute("features", std::string());
  root.attribute("creator", creator());
  root.attribute("created", now_iso8601());
  write_provenance(root.group("provenance"), provenance);
}

void complete(const Handle& file, const std::string& path) {
  root_of(file, path).attribute("complete", 1);
  check(H5Fflush(file.get(), H5F_SCOPE_GLOBAL), {ExitCode::runtime_fault, path}, "write the file");
}

using Image = std::vector<std::byte>;

void* resize_image(void*, std::size_t bytes, H5FD_file_image_op_t, void* image) {
  try {
    static_cast<Image*>(image)->resize(bytes);
    return static_cast<Image*>(image)->data();
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
herr_t keep_image(void*, H5FD_file_image_op_t, void*) { return 0; }
void* share_image(void* image) { return image; }
herr_t unshare_image(void*) { return 0; }

/// HDF5 keeps the file in `image`: no copy is needed at the end, and it is whole once the file is closed
/// (H5Fget_file_image of 1.10.8 makes a superblock whose checksum is wrong).
Handle memory_access(Image& image, std::int64_t increment, const Place& place) {
  Handle access = access_properties(place);
  check(H5Pset_fapl_core(access.get(), static_cast<std::size_t>(increment), false), place, "choose to stay in memory");
  H5FD_file_image_callbacks_t callbacks{};
  callbacks.image_realloc = resize_image;
  callbacks.image_free = keep_image;
  callbacks.udata_copy = share_image;
  callbacks.udata_free = unshare_image;
  callbacks.udata = &image;
  check(H5Pset_file_image_callbacks(access.get(), &callbacks), place, "choose where to stay in memory");
  return access;
}

/// @return `path`
std::string replaceable(const std::string& path, const std::string& schema) {
  std::error_code unreadable;  // then creating the temporary says why
  if (!std::filesystem::is_regular_file(path, unreadable)) return path;
  if (std::filesystem::file_size(path, unreadable) == 0) return path;  // as mktemp makes it: nothing to lose
  std::string found;
  try {
    found = schema_of(path);
  } catch (const Error&) {
    found = "no whole file of ours";
  }
  if (found != schema)
    throw bad_input(text(path, ": exists and holds ", found, ", which ", schema,
                         " must not replace: name another output, or delete it"));
  return path;
}

}  // namespace

std::string creator() {
  return text("sluice ", SLUICE_VERSION, ", HDF5 ", H5_VERS_MAJOR, ".", H5_VERS_MINOR, ".", H5_VERS_RELEASE);
}

void require_dataset_name(const std::string& place, const std::string& name) {
  if (name.empty() || name == "." || name.find_first_of(std::string("/\0", 2)) != std::string::npos)
    throw bad_input(text(place, ": '", name.c_str(), "' cannot name a dataset"));
}

GroupWriter GroupWriter::group(const std::string& name) const {
  const Place place = writing(place_, name);
  Handle inner(
      check(H5Gcreate2(group_.get(), name.c_str(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT), place, "create the group"));
  return {std::move(inner), place.name};
}

void GroupWriter::attribute(const std::string& name, const std::string& value) const {
  write_text_attribute(group_.get(), name, value, writing(place_, ""));
}

void GroupWriter::attribute(const std::string& name, double value) const {
  write_attribute(group_.get(), name, H5T_NATIVE_DOUBLE, &value, writing(place_, ""));
}

void GroupWriter::integer(const std::string& name, std::int64_t value) const {
  write_attribute(group_.get(), name, H5T_NATIVE_INT64, &value, writing(place_, ""));
}

void GroupWriter::strings(const std::string& name, const std::vector<std::string>& values,
                          const std::string& description) const {
  std::size_t width = 1;
  for (const std::string& value : values) width = std::max(width, value.size());
  std::string padded;
  padded.reserve(width * values.size());
  for (const std::string& value : values) padded.append(value).append(width - value.size(), '\0');
  const Handle type = string_type(width, writing(place_, name));
  dataset(name, type.get(), padded.data(), {std::ssize(values)}, {"", description});
}

void GroupWriter::choices(const std::string& name, const std::vector<std::uint8_t>& values,
                          const std::vector<std::string>& names, const std::string& description) const {
  const Handle type = choice_type(names, writing(place_, name));
  dataset(name, type.get(), values.data(), {std::ssize(values)}, {"", description});
}

void GroupWriter::numbers(const std::string& name, Number number, const void* values, const Shape& shape,
                          const Meaning& meaning, Layout layout) const {
  dataset(name, memory_type(number), values, shape, meaning, layout);
}

void GroupWriter::dataset(const std::string& name, std::int64_t type, const void* values, const Shape& shape,
                          const Meaning& meaning, Layout layout) const {
  const Place place = writing(place_, name);
  const Handle space = simple_space(shape, place);
  const Handle properties(check(H5Pcreate(H5P_DATASET_CREATE), place, "make creation properties"));
  if (layout != Layout::contiguous) choose_chunks(properties.get(), type, shape, layout, place);
  const Handle data(
      check(H5Dcreate2(group_.get(), name.c_str(), type, space.get(), H5P_DEFAULT, properties.get(), H5P_DEFAULT),
            place, "create the dataset"));
  if (element_count(shape) > 0)
    check(H5Dwrite(data.get(), type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values), place, "write the dataset");
  if (!meaning.units.empty()) write_text_attribute(data.get(), "units", meaning.units, place);
  write_text_attribute(data.get(), "description", meaning.description, place);
}

void check_writable(const std::string& path, const std::string& schema) {
  const AtomicFile probe(replaceable(path, schema));
}

FileWriter::FileWriter(const std::string& path, const std::string& schema, const Provenance& provenance)
    : target_(replaceable(path, schema)) {
  use_hdf5();
  const Place place{ExitCode::runtime_fault, path};
  const Handle access = access_properties(place);
  file_ = Handle(check(H5Fcreate(target_.temporary().c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access.get()), place,
                       "create the file"));
  write_root(root(), schema, provenance);
}

// After a failed write the library cannot close a file without crashing (seen
// with 1.10.8). Such a file is left open; its temporary name is gone, and the
// process is about to end with the error.
FileWriter::~FileWriter() { static_cast<void>(file_.release()); }

GroupWriter FileWriter::root() const { return root_of(file_, target_.path()); }

void FileWriter::commit() {
  complete(file_, target_.path());
  check(H5Fclose(file_.get()), {ExitCode::runtime_fault, target_.path()}, "close the file");
  static_cast<void>(file_.release());
  target_.commit();
}

ImageWriter::ImageWriter(std::string name, const std::string& schema, std::int64_t bytes) : name_(std::move(name)) {
  use_hdf5();
  const Place place{ExitCode::runtime_fault, name_};
  const Handle access = memory_access(image_, bytes, place);
  file_ = Handle(check(H5Fcreate(name_.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access.get()), place, "create the image"));
  write_root(root(), schema, {});
}

GroupWriter ImageWriter::root() const { return root_of(file_, name_); }

std::vector<std::byte> ImageWriter::finish() {
  const Place place{ExitCode::runtime_fault, name_};
  complete(file_, name_);
  const auto bytes =
      static_cast<std::size_t>(check(H5Fget_file_image(file_.get(), nullptr, 0), place, "size the image"));
  check(H5Fclose(file_.release()), place, "close the image");
  image_.resize(bytes);  // HDF5 rounds up
  return std::move(image_);
}

}  // namespace sluice
