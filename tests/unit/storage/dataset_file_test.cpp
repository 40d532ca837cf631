#include "core/storage/dataset_file.h"

#include <gtest/gtest.h>

#include <random>

#include "core/error.h"
#include "tests/unit/storage/samples.h"

namespace sluice {
namespace {

constexpr ImageKind kKind{3, 2, 2, 5};

LabelledImages random_images(std::int64_t count, unsigned seed) {
  std::mt19937 random(seed);
  LabelledImages part;
  for (std::int64_t i = 0; i < count * kKind.image_bytes(); ++i)
    part.images.push_back(static_cast<std::uint8_t>(random() % 256));
  for (std::int64_t i = 0; i < count; ++i) part.labels.push_back(static_cast<std::int32_t>(random() % 5));
  return part;
}

TEST(Dataset, returns_rows_in_the_order_asked_for) {
  const ScratchFolder folder;
  const LabelledImages train = random_images(20, 1), test = random_images(4, 2);
  write_dataset(folder.file("d.h5"), kKind, train, test);
  const DatasetReader reader(folder.file("d.h5"));
  EXPECT_EQ(reader.kind(), kKind);
  EXPECT_EQ(reader.size(Split::train), 20);
  EXPECT_EQ(reader.size(Split::test), 4);

  const std::vector<std::int64_t> rows{19, 0, 7, 7};
  std::vector<std::uint8_t> images(4 * 12);
  std::vector<std::int32_t> labels(4);
  reader.read_rows(Split::train, rows, images.data(), labels.data());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto row = static_cast<std::size_t>(rows[i]);
    EXPECT_EQ(labels[i], train.labels[row]);
    EXPECT_TRUE(std::equal(&images[i * 12], &images[i * 12] + 12, &train.images[row * 12])) << "row " << row;
  }
  reader.read_rows(Split::test, std::vector<std::int64_t>{3}, images.data(), labels.data());
  EXPECT_EQ(labels[0], test.labels[3]);
}

TEST(Dataset, mean_and_deviation_are_those_of_the_training_part_per_channel) {
  const ScratchFolder folder;
  // Channel 0 holds 0 and 255 alike often, channel 1 always 51.
  LabelledImages train{{}, {0, 1}};
  for (int i = 0; i < 12; ++i) train.images.insert(train.images.end(), {static_cast<std::uint8_t>(255 * (i % 2)), 51});
  write_dataset(folder.file("d.h5"), kKind, train, random_images(3, 3));
  const DatasetReader reader(folder.file("d.h5"));
  EXPECT_DOUBLE_EQ(reader.mean()[0], 0.5);
  EXPECT_DOUBLE_EQ(reader.standard_deviation()[0], 0.5);
  EXPECT_DOUBLE_EQ(reader.mean()[1], 0.2);
  EXPECT_DOUBLE_EQ(reader.standard_deviation()[1], 1);
}

TEST(Dataset, refuses_a_row_that_is_not_there) {
  const ScratchFolder folder;
  write_dataset(folder.file("d.h5"), kKind, random_images(2, 1), {});
  const DatasetReader reader(folder.file("d.h5"));
  std::vector<std::uint8_t> images(12);
  std::int32_t label = 0;
  for (const std::int64_t row : {-1, 2})
    EXPECT_THROW(reader.read_rows(Split::train, std::vector{row}, images.data(), &label), Error);
}

TEST(Dataset, refuses_to_write_a_label_out_of_range) {
  const ScratchFolder folder;
  LabelledImages train = random_images(3, 1);
  train.labels[2] = 5;
  EXPECT_THROW(write_dataset(folder.file("d.h5"), kKind, train, {}), Error);
  EXPECT_EQ(folder.entries(), 0u);
}

}  // namespace
}  // namespace sluice
