#include "core/storage/hdf5_calls.h"

#include "core/text.h"

namespace sluice {
namespace {

void compare_versions() {
  unsigned major = 0, minor = 0, release = 0;
  if (H5get_libversion(&major, &minor, &release) < 0 || major != H5_VERS_MAJOR || minor != H5_VERS_MINOR ||
      release != H5_VERS_RELEASE)
    throw runtime_fault(text("built with HDF5 ", H5_VERS_MAJOR, ".", H5_VERS_MINOR, ".", H5_VERS_RELEASE,
                             " but running with ", major, ".", minor, ".", release,
                             ": rebuild, or point LD_LIBRARY_PATH at the library that it was built with"));
}

/// The stack is walked from the call inwards, so the last entry is the innermost.
herr_t keep_description(unsigned, const H5E_error2_t* entry, void* description) {
  *static_cast<std::string*>(description) = entry->desc != nullptr ? entry->desc : "";
  return 0;
}

/// "file write failed: time = ..., errno = 28, error message = 'No space left on device', buf = ..."
/// is mostly of use to the library's authors; its first and its fourth part remain.
std::string shortened(const std::string& description) {
  const std::string key = "error message = '";
  const auto start = description.find(key);
  if (start == std::string::npos) return description;
  const auto reason = start + key.size();
  return text(description.substr(0, description.find_first_of(":,")), ": ",
              description.substr(reason, description.find('\'', reason) - reason));
}

std::string innermost_error() {
  std::string description;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_DOWNWARD, keep_description, &description);
  H5Eclear2(H5E_DEFAULT);
  return shortened(description);
}

}  // namespace

Handle::~Handle() {
  if (id_ >= 0) H5Idec_ref(id_);
}

void use_hdf5() {
  // At exit the library would close the files that a full disk kept FileWriter
  // from closing, and crash (seen with 1.10.8).
  static const bool stays_quiet_at_exit = H5dont_atexit() >= 0;
  static const bool versions_agree = (compare_versions(), true);
  // The error stack, and whether it is printed, belong to the thread.
  thread_local const bool silent = H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr) >= 0;
  static_cast<void>(stays_quiet_at_exit && versions_agree && silent);
}

void fail(const Place& place, const std::string& action) {
  const std::string reason = innermost_error();
  throw Error(place.code, text(place.name, ": cannot ", action, reason.empty() ? "" : ": ", reason));
}

hid_t memory_type(Number number) {
  switch (number) {
    case Number::uint8:
      return H5T_NATIVE_UINT8;
    case Number::int32:
      return H5T_NATIVE_INT32;
    case Number::int64:
      return H5T_NATIVE_INT64;
    case Number::float32:
      return H5T_NATIVE_FLOAT;
    case Number::float64:
      return H5T_NATIVE_DOUBLE;
  }
  return H5I_INVALID_HID;
}

Handle string_type(std::size_t bytes, const Place& place) {
  Handle type(check(H5Tcopy(H5T_C_S1), place, "make a string type"));
  check(H5Tset_size(type.get(), bytes), place, "size a string type");
  check(H5Tset_strpad(type.get(), H5T_STR_NULLPAD), place, "pad a string type");
  check(H5Tset_cset(type.get(), H5T_CSET_UTF8), place, "set a string type to UTF-8");
  return type;
}

Handle choice_type(const std::vector<std::string>& names, const Place& place) {
  Handle type(check(H5Tenum_create(H5T_NATIVE_UINT8), place, "make an enumeration type"));
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto value = static_cast<std::uint8_t>(i);
    check(H5Tenum_insert(type.get(), names[i].c_str(), &value), place, "name a value of an enumeration type");
  }
  return type;
}

Handle access_properties(const Place& place) {
  Handle access(check(H5Pcreate(H5P_FILE_ACCESS), place, "make access properties"));
  check(H5Pset_libver_bounds(access.get(), H5F_LIBVER_V110, H5F_LIBVER_LATEST), place, "choose the file format");
  check(H5Pset_fclose_degree(access.get(), H5F_CLOSE_STRONG), place, "choose how to close");
  check(H5Pset_file_locking(access.get(), false, true), place, "do without file locks");
  return access;
}

}  // namespace sluice
