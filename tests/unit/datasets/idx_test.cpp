#include "datasets/idx.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <fstream>

#include "core/error.h"
#include "datasets/labelled_idx.h"
#include "tests/unit/storage/samples.h"

namespace sluice {
namespace {

std::string write_plain(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

std::string write_gzip(const std::string& path, const std::string& bytes) {
  gzFile file = gzopen(path.c_str(), "wb");
  gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size()));
  gzclose(file);
  return path;
}

std::string header(std::initializer_list<int> extents) {
  std::string bytes{'\0', '\0', '\x08', static_cast<char>(extents.size())};
  for (const int extent : extents)
    for (const int shift : {24, 16, 8, 0}) bytes.push_back(static_cast<char>(extent >> shift));
  return bytes;
}

const std::string kImages = header({3, 2, 2}) + "abcdefghijkl";
const std::string kLabels = header({3}) + std::string("\x00\x02\x01", 3);

void expect_bad_input(const std::string& path, std::size_t rank, const std::string& complaint) {
  try {
    static_cast<void>(read_idx(path, rank));
    FAIL() << "expected: " << complaint;
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::bad_input);
    EXPECT_NE(std::string(error.what()).find(complaint), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find(path), std::string::npos) << error.what();
  }
}

TEST(Idx, reads_plain_and_compressed_files_alike) {
  const ScratchFolder folder;
  for (const auto& path : {write_plain(folder.file("plain"), kImages), write_gzip(folder.file("gzip"), kImages)}) {
    const IdxArray array = read_idx(path, 3);
    EXPECT_EQ(array.shape, (Shape{3, 2, 2}));
    EXPECT_EQ(std::string(array.values.begin(), array.values.end()), "abcdefghijkl");
  }
}

TEST(Idx, refuses_damaged_files) {
  const ScratchFolder folder;
  const std::string path = folder.file("f");
  expect_bad_input(folder.file("absent"), 3, "No such file");
  expect_bad_input(write_plain(path, ""), 3, "ends too early");
  expect_bad_input(write_plain(path, kLabels), 3, "expected 0 0 8 3");
  expect_bad_input(write_plain(path, kImages.substr(0, 20)), 3, "ends too early");
  expect_bad_input(write_plain(path, kImages + "m"), 3, "goes on");
  expect_bad_input(write_plain(path, header({-1, -1, -1}) + "a"), 3, "too large");
  expect_bad_input(write_plain(path, header({-1, 1, 1}) + "a"), 3, "ends too early");
}

TEST(Idx, refuses_gzip_with_a_wrong_checksum) {
  const ScratchFolder folder;
  const std::string path = write_gzip(folder.file("gzip"), kImages);
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(-8, std::ios::end);
  file.put('!');
  file.close();
  expect_bad_input(path, 3, "incorrect data check");
}

TEST(LabelledIdx, frames_limits_and_counts_classes) {
  const ScratchFolder folder;
  const IdxPart part =
      read_labelled_idx(write_plain(folder.file("images"), kImages), write_plain(folder.file("labels"), kLabels), 1, 1);
  EXPECT_EQ(part.kind, (ImageKind{4, 4, 1, 3}));
  EXPECT_EQ(part.part.labels, (std::vector<std::int32_t>{0}));
  EXPECT_EQ(part.part.images, (std::vector<std::uint8_t>{0, 0, 0, 0, 0, 'a', 'b', 0, 0, 'c', 'd', 0, 0, 0, 0, 0}));
}

TEST(LabelledIdx, refuses_more_images_than_labels) {
  const ScratchFolder folder;
  EXPECT_THROW(static_cast<void>(read_labelled_idx(write_plain(folder.file("images"), kImages),
                                                   write_plain(folder.file("labels"), header({2}) + "ab"), 0, -1)),
               Error);
}

/// Mean and deviation as they are widely quoted for this data set.
TEST(LabelledIdx, reads_fashion_mnist) {
  const std::string source = "/usr/share/datasets/fashion-mnist/";
  const IdxPart train =
      read_labelled_idx(source + "train-images-idx3-ubyte.gz", source + "train-labels-idx1-ubyte.gz", 0, -1);
  EXPECT_EQ(train.kind, (ImageKind{28, 28, 1, 10}));
  const ScratchFolder folder;
  write_dataset(folder.file("d.h5"), train.kind, train.part, {});
  const DatasetReader reader(folder.file("d.h5"));
  EXPECT_EQ(reader.size(Split::train), 60000);
  EXPECT_NEAR(reader.mean()[0], 0.2860, 5e-5);
  EXPECT_NEAR(reader.standard_deviation()[0], 0.3530, 5e-5);
}

}  // namespace
}  // namespace sluice
