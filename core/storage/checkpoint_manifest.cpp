#include <charconv>
#include <set>

#include "core/error.h"
#include "core/storage/checkpoint_files.h"
#include "core/storage/checkpoint_folder.h"
#include "core/storage/in_file.h"
#include "core/storage/reader.h"
#include "core/storage/table.h"
#include "core/storage/writer.h"
#include "core/text.h"

namespace sluice {
namespace {

struct FileRow {
  std::string name;
  std::int64_t bytes = 0;
  std::string checksum;
};

struct LayerRow {
  std::string name;
  int file = 0;
};

template <typename Table>
void file_columns(Table table) {
  table.string("name", &FileRow::name, "in the folder of this manifest");
  table.number("bytes", &FileRow::bytes, {"B", "its length"});
  table.string("checksum", &FileRow::checksum, "XXH64 of all its bytes, hexadecimal");
}

template <typename Table>
void layer_columns(Table table) {
  table.string("name", &LayerRow::name, "a layer with trainable arrays");
  table.number("file", &LayerRow::file, {"1", "row of /files that holds it"});
}

void write_files(const GroupWriter& root, const std::vector<StateFile>& files) {
  std::vector<FileRow> rows;
  std::vector<LayerRow> layers;
  for (const StateFile& file : files) {
    for (const std::string& layer : file.layers) layers.push_back({layer, static_cast<int>(rows.size())});
    rows.push_back({file.name, file.bytes, hexadecimal(file.checksum)});
  }
  file_columns(TableWriter(root, "files", rows));
  layer_columns(TableWriter(root, "layers", layers));
}

std::uint64_t checksum_from(const GroupReader& root, const std::string& digits) {
  std::uint64_t value = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
  if (hexadecimal(value) != digits)
    root.refuse("files/checksum", text("holds '", digits, "', expected 16 hexadecimal digits"));
  return value;
}

std::vector<StateFile> read_files(const GroupReader& root) {
  std::vector<FileRow> rows;
  std::vector<LayerRow> layers;
  file_columns(TableReader(root, "files", rows));
  layer_columns(TableReader(root, "layers", layers));
  std::vector<StateFile> files;
  for (const FileRow& row : rows) files.push_back({row.name, row.bytes, checksum_from(root, row.checksum), {}});
  for (const LayerRow& layer : layers) {
    if (layer.file < 0 || layer.file >= std::ssize(files))
      root.refuse("layers/file", text("holds ", layer.file, ", but there are ", files.size(), " files"));
    files[static_cast<std::size_t>(layer.file)].layers.push_back(layer.name);
  }
  return files;
}

void require_least(const std::string& path, const char* what, std::int64_t value, std::int64_t least) {
  if (value < least) throw bad_input(text(path, ": ", what, " is ", value, ", expected at least ", least));
}

/// Names of files lead nowhere else; every layer and every file is there once.
void validate_files(const std::string& path, const std::vector<StateFile>& files) {
  std::set<std::string> names, layers;
  for (const StateFile& file : files) {
    if (file.name.empty() || file.name.find('/') != std::string::npos || file.name.starts_with('.') ||
        file.name == kManifestName)
      throw bad_input(text(path, ": /files/name: '", file.name, "' cannot name a file of layer states"));
    if (!names.insert(file.name).second) throw bad_input(text(path, ": /files/name: ", file.name, " is there twice"));
    require_least(path, "/files/bytes", file.bytes, 0);
    for (const std::string& layer : file.layers)
      if (!layers.insert(layer).second) throw bad_input(text(path, ": /layers/name: ", layer, " is there twice"));
  }
}

void validate(const std::string& path, const CheckpointManifest& manifest) {
  require_least(path, "attribute step", manifest.step, 0);
  require_least(path, "attribute epoch", manifest.epoch, 0);
  require_least(path, "attribute samples", manifest.samples, 1);
  require_least(path, "attribute microbatch", manifest.microbatch, 1);
  require_least(path, "attribute microbatches", manifest.microbatches, 1);
  require_least(path, "attribute threads", manifest.threads, 1);
  require_least(path, "attribute ranks", manifest.ranks, 1);
  validate_files(path, manifest.files);
}

}  // namespace

void write_manifest(const std::string& folder, const CheckpointManifest& manifest) {
  const std::string path = manifest_path(folder);
  validate(path, manifest);
  as_runtime_fault(folder, [&] {
    std::set<std::string> listed;
    for (const StateFile& file : manifest.files) listed.insert(file.name);
    remove_files(folder, [&](const std::string& name) { return !listed.contains(name); });
    FileWriter file(path, kCheckpointSchema, {manifest.command_line, manifest.settings});
    const GroupWriter root = file.root();
    root.attribute("step", manifest.step);
    root.attribute("epoch", manifest.epoch);
    root.attribute("seed", manifest.seed);
    root.attribute("samples", manifest.samples);
    root.attribute("microbatch", manifest.microbatch);
    root.attribute("microbatches", manifest.microbatches);
    root.attribute("threads", manifest.threads);
    root.attribute("ranks", manifest.ranks);
    root.attribute("device", manifest.device);
    root.attribute("model", manifest.model);
    root.attribute("schedule", manifest.schedule);
    write_files(root, manifest.files);
    file.commit();
  });
}

CheckpointManifest read_manifest(const std::string& folder) {
  const std::string path = manifest_path(folder);
  const FileReader file(path, kCheckpointSchema);
  const GroupReader root = file.root();
  const Provenance provenance = read_provenance(path);
  const CheckpointManifest manifest{.step = root.integer_attribute<std::int64_t>("step"),
                                    .epoch = root.integer_attribute<std::int64_t>("epoch"),
                                    .seed = root.integer_attribute<std::int64_t>("seed"),
                                    .samples = root.integer_attribute<std::int64_t>("samples"),
                                    .microbatch = root.integer_attribute<std::int64_t>("microbatch"),
                                    .microbatches = root.integer_attribute<int>("microbatches"),
                                    .threads = root.integer_attribute<int>("threads"),
                                    .ranks = root.integer_attribute<int>("ranks"),
                                    .device = root.text_attribute("device"),
                                    .model = root.text_attribute("model"),
                                    .schedule = root.text_attribute("schedule"),
                                    .command_line = provenance.command_line,
                                    .settings = provenance.parameters,
                                    .files = read_files(root)};
  validate(path, manifest);
  return manifest;
}

}  // namespace sluice
