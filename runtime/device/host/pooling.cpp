#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <type_traits>
#include <utility>

#include "runtime/device/host/kernels.h"

namespace sluice {
namespace {

struct Range {
  std::int64_t first, last;  ///< half-open
};

/// One axis of a pooling: `extent` inputs, `positions` windows.
struct Axis {
  std::int64_t extent, positions, kernel, stride, padding;

  /// Offsets inside window `position` that lie on the input.
  [[nodiscard]] Range offsets(std::int64_t position) const {
    const std::int64_t start = position * stride - padding;
    return {std::max<std::int64_t>(0, -start), std::min(kernel, extent - start)};
  }
};

/// The windows of a pooling. Images lie in N, H, W, C order, so that offsets are those of
/// a place's first channel. A place in a window is kh * kernel + kw.
class Windows {
 public:
  Windows(const Layer& layer, std::int64_t microbatch)
      : images(microbatch),
        channels(layer.input_shape[0]),
        rows{layer.input_shape[1], layer.output_shape[1], layer.kernel, layer.stride, layer.padding},
        columns{layer.input_shape[2], layer.output_shape[2], layer.kernel, layer.stride, layer.padding} {}

  /// visit(n, oh, ow) for each window, where visits write to the output.
  template <typename Visit>
  void gather(Visit visit) const {
    visit_bands(rows.positions, visit);
  }

  /// visit(n, oh, ow) for each window, where visits add to the input: threads never share a
  /// place of it, and each place meets its windows in ascending order.
  template <typename Visit>
  void scatter(Visit visit) const {
    const bool overlap = rows.stride < rows.kernel;
    visit_bands(overlap ? 1 : rows.positions, visit);
  }

  /// visit(input, place) for each element of a window in ascending order.
  template <typename Visit>
  void elements(std::int64_t n, std::int64_t oh, std::int64_t ow, Visit visit) const {
    const Range in_row = rows.offsets(oh), in_column = columns.offsets(ow);
    const std::int64_t start = corner(n, oh, ow);
    for (std::int64_t kh = in_row.first; kh < in_row.last; ++kh)
      for (std::int64_t kw = in_column.first; kw < in_column.last; ++kw)
        visit(start + offset(kh, kw), kh * rows.kernel + kw);
  }

  void clear(float* input) const {
    const std::int64_t count = images * rows.extent * columns.extent * channels;
#pragma omp parallel for simd
    for (std::int64_t i = 0; i < count; ++i) input[i] = 0;
  }

  /// Of the window's place 0, which may lie in the padding.
  [[nodiscard]] std::int64_t corner(std::int64_t n, std::int64_t oh, std::int64_t ow) const {
    return n * rows.extent * columns.extent * channels +
           offset(oh * rows.stride - rows.padding, ow * columns.stride - columns.padding);
  }
  [[nodiscard]] std::int64_t offset(std::int64_t h, std::int64_t w) const {
    return (h * columns.extent + w) * channels;
  }
  [[nodiscard]] std::int64_t output(std::int64_t n, std::int64_t oh, std::int64_t ow) const {
    return ((n * rows.positions + oh) * columns.positions + ow) * channels;
  }

  std::int64_t images, channels;
  Axis rows, columns;

 private:
  /// Threads share the images' bands of rows.
  template <typename Visit>
  void visit_bands(std::int64_t bands, Visit visit) const {
    const std::int64_t height = rows.positions / bands;
#pragma omp parallel for collapse(2)
    for (std::int64_t n = 0; n < images; ++n)
      for (std::int64_t band = 0; band < bands; ++band)
        for (std::int64_t oh = band * height; oh < (band + 1) * height; ++oh)
          for (std::int64_t ow = 0; ow < columns.positions; ++ow) visit(n, oh, ow);
  }
};

/// `a` or `b`, without a branch: what training data decides is mispredicted half the time.
template <typename T>
T select(bool take_a, T a, T b) {
  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint8_t>;
  const auto mask = static_cast<Bits>(-static_cast<int>(take_a));
  return std::bit_cast<T>(
      static_cast<Bits>((std::bit_cast<Bits>(a) & mask) | (std::bit_cast<Bits>(b) & static_cast<Bits>(~mask))));
}

/// The auxiliary holds the place of the maximum inside its window, uint8, shaped like the output.
/// The first of equal values wins; a NaN wins over everything, as in PyTorch.
class MaxPool : public PlainKernel {
 public:
  explicit MaxPool(const Windows& windows) : windows_(windows) {
    const std::int64_t kernel = windows.rows.kernel;
    for (std::int64_t place = 0; place < kernel * kernel; ++place)
      offset_of_place_[static_cast<std::uint8_t>(place)] = windows.offset(place / kernel, place % kernel);
  }

  void forward(Stream&, const LayerMemory& memory, const MicrobatchContext&) override {
    const auto* input = static_cast<const float*>(memory.input);
    auto* output = static_cast<float*>(memory.output);
    auto* places = static_cast<std::uint8_t*>(memory.auxiliary);
    const std::int64_t channels = windows_.channels;
    windows_.gather([=, this](std::int64_t n, std::int64_t oh, std::int64_t ow) {
      const std::int64_t to = windows_.output(n, oh, ow);
      bool first = true;
      windows_.elements(n, oh, ow, [&](std::int64_t from, std::int64_t place) {
        const auto here = static_cast<std::uint8_t>(place);
        if (std::exchange(first, false)) {
          std::copy_n(input + from, channels, output + to);
          std::fill_n(places + to, channels, here);
          return;
        }
#pragma omp simd
        for (std::int64_t c = 0; c < channels; ++c) {
          const float value = input[from + c];
          const bool take = (value > output[to + c]) | std::isnan(value);
          output[to + c] = select(take, value, output[to + c]);
          places[to + c] = select(take, here, places[to + c]);
        }
      });
    });
  }

  void backward_input(Stream&, const LayerMemory& memory, const MicrobatchContext&) override {
    const auto* places = static_cast<const std::uint8_t*>(memory.auxiliary);
    const auto* output_gradient = static_cast<const float*>(memory.output_gradient);
    auto* input_gradient = static_cast<float*>(memory.input_gradient);
    windows_.clear(input_gradient);
    windows_.scatter([=, this](std::int64_t n, std::int64_t oh, std::int64_t ow) {
      const std::int64_t from = windows_.output(n, oh, ow), to = windows_.corner(n, oh, ow);
      for (std::int64_t c = 0; c < windows_.channels; ++c)
        input_gradient[to + offset_of_place_[places[from + c]] + c] += output_gradient[from + c];
    });
  }

 private:
  Windows windows_;
  std::array<std::int64_t, 256> offset_of_place_{};  ///< from a window's corner
};

/// Padding counts as zeros: every window is divided by kernel * kernel.
class AveragePool : public PlainKernel {
 public:
  explicit AveragePool(const Windows& windows)
      : windows_(windows), share_(1 / static_cast<float>(windows.rows.kernel * windows.columns.kernel)) {}

  void forward(Stream&, const LayerMemory& memory, const MicrobatchContext&) override {
    const auto* input = static_cast<const float*>(memory.input);
    auto* output = static_cast<float*>(memory.output);
    windows_.gather([=, this](std::int64_t n, std::int64_t oh, std::int64_t ow) {
      const std::int64_t channels = windows_.channels, to = windows_.output(n, oh, ow);
      const float share = share_;
      std::fill_n(output + to, channels, 0.0F);
      windows_.elements(n, oh, ow, [=](std::int64_t from, std::int64_t) {
#pragma omp simd
        for (std::int64_t c = 0; c < channels; ++c) output[to + c] += input[from + c] * share;
      });
    });
  }

  void backward_input(Stream&, const LayerMemory& memory, const MicrobatchContext&) override {
    const auto* output_gradient = static_cast<const float*>(memory.output_gradient);
    auto* input_gradient = static_cast<float*>(memory.input_gradient);
    windows_.clear(input_gradient);
    windows_.scatter([=, this](std::int64_t n, std::int64_t oh, std::int64_t ow) {
      const std::int64_t channels = windows_.channels, from = windows_.output(n, oh, ow);
      const float share = share_;
      windows_.elements(n, oh, ow, [=](std::int64_t to, std::int64_t) {
#pragma omp simd
        for (std::int64_t c = 0; c < channels; ++c) input_gradient[to + c] += output_gradient[from + c] * share;
      });
    });
  }

 private:
  Windows windows_;
  float share_;
};

}  // namespace

std::unique_ptr<LayerKernel> create_max_pool(const Layer& layer, std::int64_t microbatch) {
  return std::make_unique<MaxPool>(Windows(layer, microbatch));
}

std::unique_ptr<LayerKernel> create_average_pool(const Layer& layer, std::int64_t microbatch) {
  return std::make_unique<AveragePool>(Windows(layer, microbatch));
}

}  // namespace sluice
