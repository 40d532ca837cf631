#include <algorithm>
#include <cmath>

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
  /// Windows that contain input element `i`.
  [[nodiscard]] Range windows(std::int64_t i) const {
    const std::int64_t last_start = i + padding;
    const std::int64_t first_start = last_start - kernel + 1;
    return {first_start <= 0 ? 0 : (first_start + stride - 1) / stride, std::min(positions, last_start / stride + 1)};
  }
};

/// Walks the pairs of input element and window that contain each other. Images lie in
/// N, H, W, C order and a visit handles all channels of a pair, given the offsets of
/// input and output and the place in the window, kh * kernel + kw.
class Windows {
 public:
  Windows(const Layer& layer, std::int64_t microbatch)
      : images(microbatch),
        channels(layer.input_shape[0]),
        rows{layer.input_shape[1], layer.output_shape[1], layer.kernel, layer.stride, layer.padding},
        columns{layer.input_shape[2], layer.output_shape[2], layer.kernel, layer.stride, layer.padding} {}

  /// visit(input, output, place, first) for each window's elements in ascending order.
  template <typename Visit>
  void by_window(Visit visit) const {
#pragma omp parallel for collapse(2)
    for (std::int64_t n = 0; n < images; ++n)
      for (std::int64_t oh = 0; oh < rows.positions; ++oh)
        for (std::int64_t ow = 0; ow < columns.positions; ++ow) {
          const Range in_row = rows.offsets(oh), in_column = columns.offsets(ow);
          for (std::int64_t kh = in_row.first; kh < in_row.last; ++kh)
            for (std::int64_t kw = in_column.first; kw < in_column.last; ++kw)
              visit(input_offset(n, oh * rows.stride - rows.padding + kh, ow * columns.stride - columns.padding + kw),
                    output_offset(n, oh, ow), kh * rows.kernel + kw, kh == in_row.first && kw == in_column.first);
        }
  }

  /// start(input) for each input element, then visit(input, output, place) for the windows that contain
  /// it in ascending order. Gathering, so that threads never write to the same place.
  template <typename Start, typename Visit>
  void by_input(Start start, Visit visit) const {
#pragma omp parallel for collapse(2)
    for (std::int64_t n = 0; n < images; ++n)
      for (std::int64_t ih = 0; ih < rows.extent; ++ih)
        for (std::int64_t iw = 0; iw < columns.extent; ++iw) {
          start(input_offset(n, ih, iw));
          const Range over_row = rows.windows(ih), over_column = columns.windows(iw);
          for (std::int64_t oh = over_row.first; oh < over_row.last; ++oh)
            for (std::int64_t ow = over_column.first; ow < over_column.last; ++ow)
              visit(input_offset(n, ih, iw), output_offset(n, oh, ow),
                    (ih + rows.padding - oh * rows.stride) * rows.kernel + iw + columns.padding - ow * columns.stride);
        }
  }

  std::int64_t images, channels;
  Axis rows, columns;

 private:
  [[nodiscard]] std::int64_t input_offset(std::int64_t n, std::int64_t h, std::int64_t w) const {
    return ((n * rows.extent + h) * columns.extent + w) * channels;
  }
  [[nodiscard]] std::int64_t output_offset(std::int64_t n, std::int64_t h, std::int64_t w) const {
    return ((n * rows.positions + h) * columns.positions + w) * channels;
  }
};

/// The auxiliary holds the place of the maximum inside its window, uint8, shaped like the output.
/// The first of equal values wins; a NaN wins over everything, as in PyTorch.
class MaxPool : public PlainKernel {
 public:
  explicit MaxPool(const Windows& windows) : windows_(windows) {}

  void forward(Stream&, const LayerMemory& memory, const MicrobatchContext&) override {
    const auto* input = static_cast<const float*>(memory.input);
    auto* output = static_cast<float*>(memory.output);
    auto* places = static_cast<std::uint8_t*>(memory.auxiliary);
    const std::int64_t channels = windows_.channels;
    windows_.by_window([=](std::int64_t from, std::int64_t to, std::int64_t place, bool first) {
#pragma omp simd
      for (std::int64_t c = 0; c < channels; ++c) {
        const float value = input[from + c];
        const bool take = first || value > output[to + c] || std::isnan(value);
        output[to + c] = take ? value : output[to + c];
        places[to + c] = take ? static_cast<std::uint8_t>(place) : places[to + c];
      }
    });
  }

  void backward_input(Stream&, const LayerMemory& memory, const MicrobatchContext&) override {
    const auto* places = static_cast<const std::uint8_t*>(memory.auxiliary);
    const auto* output_gradient = static_cast<const float*>(memory.output_gradient);
    auto* input_gradient = static_cast<float*>(memory.input_gradient);
    const std::int64_t channels = windows_.channels;
    windows_.by_input([=](std::int64_t to) { std::fill_n(input_gradient + to, channels, 0.0F); },
                      [=](std::int64_t to, std::int64_t from, std::int64_t place) {
                        const auto wanted = static_cast<std::uint8_t>(place);
#pragma omp simd
                        for (std::int64_t c = 0; c < channels; ++c) {
                          const float gradient = output_gradient[from + c];  // loaded in any case: no branch
                          input_gradient[to + c] += places[from + c] == wanted ? gradient : 0.0F;
                        }
                      });
  }

 private:
  Windows windows_;
};

/// Padding counts as zeros: every window is divided by kernel * kernel.
class AveragePool : public PlainKernel {
 public:
  explicit AveragePool(const Windows& windows)
      : windows_(windows), share_(1 / static_cast<float>(windows.rows.kernel * windows.columns.kernel)) {}

  void forward(Stream&, const LayerMemory& memory, const MicrobatchContext&) override {
    const auto* input = static_cast<const float*>(memory.input);
    auto* output = static_cast<float*>(memory.output);
    const std::int64_t channels = windows_.channels;
    const float share = share_;
    windows_.by_window([=](std::int64_t from, std::int64_t to, std::int64_t, bool first) {
#pragma omp simd
      for (std::int64_t c = 0; c < channels; ++c)
        output[to + c] = (first ? 0 : output[to + c]) + input[from + c] * share;
    });
  }

  void backward_input(Stream&, const LayerMemory& memory, const MicrobatchContext&) override {
    const auto* output_gradient = static_cast<const float*>(memory.output_gradient);
    auto* input_gradient = static_cast<float*>(memory.input_gradient);
    const std::int64_t channels = windows_.channels;
    const float share = share_;
    windows_.by_input([=](std::int64_t to) { std::fill_n(input_gradient + to, channels, 0.0F); },
                      [=](std::int64_t to, std::int64_t from, std::int64_t) {
#pragma omp simd
                        for (std::int64_t c = 0; c < channels; ++c)
                          input_gradient[to + c] += output_gradient[from + c] * share;
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
