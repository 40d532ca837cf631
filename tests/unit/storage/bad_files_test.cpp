// Files that are not what they should be: each is refused with exit code 3, and
// the message names file and dataset. Damage is done with the plain HDF5 library.
#include <gtest/gtest.h>
#include <hdf5.h>

#include <cmath>
#include <fstream>
#include <functional>
#include <limits>

#include "core/error.h"
#include "core/storage/cluster_file.h"
#include "core/storage/dataset_file.h"
#include "core/storage/in_file.h"
#include "core/storage/plan_file.h"
#include "core/storage/profile_file.h"
#include "core/text.h"
#include "tests/unit/storage/samples.h"

namespace sluice {
namespace {

void expect_refused(const std::function<void()>& read, const std::vector<std::string>& complaints) {
  try {
    read();
    FAIL() << "accepted; expected: " << complaints.front();
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::bad_input);
    for (const std::string& complaint : complaints)
      EXPECT_NE(std::string(error.what()).find(complaint), std::string::npos)
          << "expected '" << complaint << "' in: " << error.what();
  }
}

void edit(const std::string& path, const std::function<void(hid_t)>& action) {
  const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
  ASSERT_GE(file, 0);
  action(file);
  ASSERT_GE(H5Fclose(file), 0);
}

template <typename T>
void set_rows(hid_t file, const char* name, hid_t type, const std::vector<T>& values) {
  const hid_t data = H5Dopen2(file, name, H5P_DEFAULT);
  ASSERT_GE(H5Dwrite(data, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), 0) << name;
  H5Dclose(data);
}

template <typename T>
void replace(hid_t file, const char* name, hid_t type, const std::vector<hsize_t>& shape,
             const std::vector<T>& values) {
  ASSERT_GE(H5Ldelete(file, name, H5P_DEFAULT), 0) << name;
  const hid_t space = H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr);
  const hid_t data = H5Dcreate2(file, name, type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  ASSERT_GE(H5Dwrite(data, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), 0) << name;
  H5Dclose(data);
  H5Sclose(space);
}

void set_text_attribute(hid_t file, const char* name, const std::string& value) {
  H5Adelete(file, name);
  const hid_t type = H5Tcopy(H5T_C_S1);
  H5Tset_size(type, value.size());
  const hid_t space = H5Screate(H5S_SCALAR);
  const hid_t attribute = H5Acreate2(file, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
  ASSERT_GE(H5Awrite(attribute, type, value.data()), 0);
  H5Aclose(attribute);
  H5Sclose(space);
  H5Tclose(type);
}

void set_integer_attribute(hid_t file, const char* name, std::int64_t value) {
  const hid_t attribute = H5Aopen(file, name, H5P_DEFAULT);
  ASSERT_GE(H5Awrite(attribute, H5T_NATIVE_INT64, &value), 0);
  H5Aclose(attribute);
}

/// A profile file in a folder of its own, to be damaged.
class BadFiles : public testing::Test {
 protected:
  void SetUp() override { write_profile(path, sample_profile()); }
  void expect_profile_refused(const std::function<void(hid_t)>& damage, const std::vector<std::string>& complaints) {
    edit(path, damage);
    expect_refused([&] { static_cast<void>(read_profile(path)); }, complaints);
  }
  ScratchFolder folder;
  std::string path = folder.file("profile.h5");
};

TEST_F(BadFiles, that_do_not_exist_or_are_no_hdf5) {
  expect_refused([&] { static_cast<void>(read_profile(folder.file("absent.h5"))); }, {"absent.h5", "No such file"});
  std::ofstream(folder.file("text.h5")) << "This is not HDF5.";
  expect_refused([&] { static_cast<void>(read_profile(folder.file("text.h5"))); }, {"text.h5", "not an HDF5 file"});
  std::ofstream(folder.file("empty.h5")).flush();
  expect_refused([&] { static_cast<void>(read_profile(folder.file("empty.h5"))); }, {"not an HDF5 file"});
  expect_refused([&] { static_cast<void>(read_profile(folder.path())); }, {"not an HDF5 file"});
}

TEST_F(BadFiles, that_were_cut_short) {
  std::filesystem::resize_file(path, 10'000);
  expect_refused([&] { static_cast<void>(read_profile(path)); }, {path, "cannot open the file: truncated file"});
}

TEST_F(BadFiles, of_another_schema) {
  expect_refused([&] { static_cast<void>(read_cluster(path)); }, {path, "'sluice/profile'", "'sluice/cluster'"});
  expect_refused([&] { static_cast<void>(read_plan(path)); }, {"'sluice/plan'"});
}

TEST_F(BadFiles, of_a_foreign_hdf5_program) {
  const std::string foreign = folder.file("foreign.h5");
  H5Fclose(H5Fcreate(foreign.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT));
  expect_refused([&] { static_cast<void>(read_profile(foreign)); }, {foreign, "attribute schema is missing"});
  expect_refused([&] { static_cast<void>(schema_of(foreign)); }, {foreign, "attribute schema is missing"});
}

TEST_F(BadFiles, that_need_an_unknown_feature) {
  expect_profile_refused([](hid_t file) { set_text_attribute(file, "features", "sparse_stash"); },
                         {path, "sparse_stash"});
}

TEST_F(BadFiles, of_another_schema_version) {
  for (const int version : {1, 2, 4})
    expect_profile_refused([&](hid_t file) { set_integer_attribute(file, "schema_version", version); },
                           {text("schema_version is ", version)});
}

TEST_F(BadFiles, that_are_not_complete) {
  expect_profile_refused([](hid_t file) { set_integer_attribute(file, "complete", 0); }, {"not complete"});
}

TEST_F(BadFiles, with_an_unknown_dataset_are_read_all_the_same) {
  edit(path, [](hid_t file) { H5Gclose(H5Gcreate2(file, "notes", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT)); });
  EXPECT_EQ(read_profile(path), sample_profile());
}

TEST_F(BadFiles, made_before_later_columns_existed_are_read_with_their_defaults) {
  edit(path, [](hid_t file) {
    for (const char* name : {"costs/host_s", "costs/host_only", "cluster/ranks/host"})
      EXPECT_GE(H5Ldelete(file, name, H5P_DEFAULT), 0) << name;
  });
  Profile expected = sample_profile();
  for (LayerCost& cost : expected.costs) cost.host_s = 0, cost.host_only = false;
  for (RankSpec& rank : expected.cluster->ranks) rank.host = false;
  EXPECT_EQ(read_profile(path), expected);
  edit(path, [](hid_t file) { EXPECT_GE(H5Ldelete(file, "cluster", H5P_DEFAULT), 0); });
  expected.cluster.reset();
  EXPECT_EQ(read_profile(path), expected);
}

TEST_F(BadFiles, without_a_column) {
  expect_profile_refused([](hid_t file) { H5Ldelete(file, "costs/update_s", H5P_DEFAULT); },
                         {path, "/costs/update_s", "missing"});
}

TEST_F(BadFiles, with_times_that_are_not_numbers) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  expect_profile_refused(
      [&](hid_t file) {
        set_rows<double>(file, "costs/forward_s", H5T_NATIVE_DOUBLE, {1, nan, 1});
      },
      {path, "/costs/forward_s", "element 1", "nan"});
}

TEST_F(BadFiles, with_negative_times) {
  expect_profile_refused(
      [](hid_t file) {
        set_rows<double>(file, "costs/forward_s", H5T_NATIVE_DOUBLE, {1, 1, -2});
      },
      {path, "forward_s", "-2", "layer loss"});
}

TEST_F(BadFiles, with_columns_of_different_length) {
  expect_profile_refused(
      [](hid_t file) {
        replace<double>(file, "costs/flops", H5T_NATIVE_DOUBLE, {2}, {1, 1});
      },
      {"/costs/flops", "has 2 rows, expected 3"});
}

TEST_F(BadFiles, with_a_column_of_another_kind_or_rank) {
  expect_profile_refused(
      [](hid_t file) {
        replace<int>(file, "costs/flops", H5T_NATIVE_INT, {3}, {1, 1, 1});
      },
      {"/costs/flops", "32-bit integer", "64-bit floating point"});
  expect_profile_refused(
      [](hid_t file) {
        replace<double>(file, "costs/flops", H5T_NATIVE_DOUBLE, {3, 1}, {1, 1, 1});
      },
      {"/costs/flops", "rank 2"});
  expect_profile_refused(
      [](hid_t file) {
        replace<int>(file, "model/layers/kind", H5T_NATIVE_INT, {3}, {1, 1, 1});
      },
      {"/model/layers/kind", "enumeration"});
}

TEST_F(BadFiles, with_an_enumeration_value_out_of_range) {
  expect_profile_refused(
      [](hid_t file) {
        const hid_t data = H5Dopen2(file, "model/layers/kind", H5P_DEFAULT);
        const hid_t type = H5Dget_type(data);
        H5Dclose(data);
        set_rows<std::uint8_t>(file, "model/layers/kind", type, {1, 200, 1});
        H5Tclose(type);
      },
      {"/model/layers/kind", "row 1"});
}

TEST_F(BadFiles, with_offsets_that_lead_astray) {
  const char* name = "model/needs/forward_offsets";
  expect_profile_refused(
      [&](hid_t file) {
        set_rows<std::int64_t>(file, name, H5T_NATIVE_INT64, {0, 3, 1, 4});
      },
      {name, "decreases"});
  expect_profile_refused(
      [&](hid_t file) {
        set_rows<std::int64_t>(file, name, H5T_NATIVE_INT64, {0, 1, 2, 1 << 30});
      },
      {name, "4 values"});
}

TEST_F(BadFiles, with_edges_that_form_a_cycle) {
  // Tensor 3 is what layer 1 makes; layer 0 may not read it.
  expect_profile_refused(
      [](hid_t file) {
        set_rows<int>(file, "model/needs/forward_values", H5T_NATIVE_INT, {3, 2, 3, 1});
      },
      {path, "fingerprint"});
  expect_profile_refused(
      [](hid_t file) {
        const hid_t model = H5Gopen2(file, "model", H5P_DEFAULT);
        Profile cyclic = sample_profile();
        cyclic.model.needs[0].forward = {3};
        set_text_attribute(model, "fingerprint", hexadecimal(fingerprint(cyclic.model)));
        H5Gclose(model);
      },
      {path, "cycle"});
}

TEST_F(BadFiles, that_claim_more_than_they_hold) {
  expect_profile_refused(
      [](hid_t file) {
        H5Ldelete(file, "costs/flops", H5P_DEFAULT);
        const hsize_t extent = hsize_t{1} << 50, chunk = 1024;
        const hid_t space = H5Screate_simple(1, &extent, nullptr);
        const hid_t properties = H5Pcreate(H5P_DATASET_CREATE);
        H5Pset_chunk(properties, 1, &chunk);
        H5Dclose(H5Dcreate2(file, "costs/flops", H5T_NATIVE_DOUBLE, space, H5P_DEFAULT, properties, H5P_DEFAULT));
        H5Pclose(properties);
        H5Sclose(space);
      },
      {"/costs/flops", "claims"});
}

TEST_F(BadFiles, whose_plan_was_changed_by_hand) {
  const std::string plan = folder.file("plan.h5");
  write_plan(plan, sample_plan());
  edit(plan, [](hid_t file) {
    set_rows<int>(file, "plan/instructions/microbatch", H5T_NATIVE_INT, {1, 0, 0, 0, -1, -1, 1});
  });
  expect_refused([&] { static_cast<void>(read_plan(plan)); }, {plan, "digest"});
}

TEST_F(BadFiles, whose_labels_are_out_of_range) {
  const std::string data = folder.file("data.h5");
  write_dataset(data, {1, 1, 1, 3}, {{1, 2}, {0, 2}}, {});
  edit(data, [](hid_t file) { set_rows<int>(file, "train/labels", H5T_NATIVE_INT, {0, 3}); });
  expect_refused([&] { const DatasetReader reader(data); }, {data, "/train/labels", "label 3 of row 1"});
}

TEST_F(BadFiles, whose_images_do_not_match_their_labels) {
  const std::string data = folder.file("data.h5");
  write_dataset(data, {1, 1, 1, 3}, {{1, 2}, {0, 2}}, {});
  edit(data, [](hid_t file) { replace<int>(file, "train/labels", H5T_NATIVE_INT, {1}, {0}); });
  expect_refused([&] { const DatasetReader reader(data); }, {data, "/train/images"});
}

}  // namespace
}  // namespace sluice
