#include "tests/device/reference.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

namespace sluice::reference {
namespace {

/// (N, H, W, C) in memory, asked for as n, c, h, w; zero outside.
struct Images {
  const Array& data;
  std::int64_t channels, height, width;

  [[nodiscard]] bool inside(std::int64_t h, std::int64_t w) const {
    return h >= 0 && h < height && w >= 0 && w < width;
  }
  [[nodiscard]] double at(std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w) const {
    return inside(h, w) ? data[static_cast<std::size_t>(((n * height + h) * width + w) * channels + c)] : 0;
  }
};

Images images(const Layer& layer, const Array& input) {
  return {input, layer.input_shape[0], layer.input_shape[1], layer.input_shape[2]};
}

/// Calls value(n, c, top, left) for each window of each output channel, in N, H, W, C order.
template <typename Value>
Array over_windows(const Layer& layer, std::int64_t samples, Value value) {
  Array output;
  for (std::int64_t n = 0; n < samples; ++n)
    for (std::int64_t h = 0; h < layer.output_shape[1]; ++h)
      for (std::int64_t w = 0; w < layer.output_shape[2]; ++w)
        for (std::int64_t c = 0; c < layer.output_shape[0]; ++c)
          output.push_back(value(n, c, h * layer.stride - layer.padding, w * layer.stride - layer.padding));
  return output;
}

Array convolution(const Layer& layer, std::int64_t samples, const Array& input, const Array& weight,
                  const Array& bias) {
  const Images in = images(layer, input);
  const std::int64_t kernel = layer.kernel;
  return over_windows(layer, samples, [&](std::int64_t n, std::int64_t out, std::int64_t top, std::int64_t left) {
    double sum = bias[static_cast<std::size_t>(out)];
    for (std::int64_t c = 0; c < in.channels; ++c)
      for (std::int64_t kh = 0; kh < kernel; ++kh)
        for (std::int64_t kw = 0; kw < kernel; ++kw)
          sum += weight[static_cast<std::size_t>(((out * in.channels + c) * kernel + kh) * kernel + kw)] *
                 in.at(n, c, top + kh, left + kw);
    return sum;
  });
}

Array max_pool(const Layer& layer, std::int64_t samples, const Array& input) {
  const Images in = images(layer, input);
  return over_windows(layer, samples, [&](std::int64_t n, std::int64_t c, std::int64_t top, std::int64_t left) {
    double best = -std::numeric_limits<double>::infinity();
    for (std::int64_t h = top; h < top + layer.kernel; ++h)
      for (std::int64_t w = left; w < left + layer.kernel; ++w)
        if (in.inside(h, w)) best = std::max(best, in.at(n, c, h, w));
    return best;
  });
}

Array average_pool(const Layer& layer, std::int64_t samples, const Array& input) {
  const Images in = images(layer, input);
  return over_windows(layer, samples, [&](std::int64_t n, std::int64_t c, std::int64_t top, std::int64_t left) {
    double sum = 0;
    for (std::int64_t h = top; h < top + layer.kernel; ++h)
      for (std::int64_t w = left; w < left + layer.kernel; ++w) sum += in.at(n, c, h, w);
    return sum / static_cast<double>(layer.kernel * layer.kernel);
  });
}

Array linear(const Layer& layer, std::int64_t samples, const Array& input, const Array& weight, const Array& bias) {
  // A vector is an image of 1 x 1: then C, H, W order is the order of features.
  const std::vector<std::int64_t>& shape = layer.input_shape;
  const Images in{input, shape[0], shape.size() == 3 ? shape[1] : 1, shape.size() == 3 ? shape[2] : 1};
  Array output;
  for (std::int64_t n = 0; n < samples; ++n) {
    std::size_t next_weight = 0;
    for (std::int64_t out = 0; out < layer.output_shape[0]; ++out) {
      double sum = bias[static_cast<std::size_t>(out)];
      for (std::int64_t c = 0; c < in.channels; ++c)
        for (std::int64_t h = 0; h < in.height; ++h)
          for (std::int64_t w = 0; w < in.width; ++w) sum += weight[next_weight++] * in.at(n, c, h, w);
      output.push_back(sum);
    }
  }
  return output;
}

Array cross_entropy(std::int64_t samples, const Array& logits, const std::vector<std::int32_t>& labels) {
  const std::size_t classes = logits.size() / static_cast<std::size_t>(samples);
  Array losses;
  for (std::size_t n = 0; n < static_cast<std::size_t>(samples); ++n) {
    const auto row = logits.begin() + static_cast<std::ptrdiff_t>(n * classes);
    const double shift = *std::max_element(row, row + static_cast<std::ptrdiff_t>(classes));
    double sum = 0;
    for (std::size_t c = 0; c < classes; ++c) sum += std::exp(row[static_cast<std::ptrdiff_t>(c)] - shift);
    losses.push_back(shift + std::log(sum) - row[labels[n]]);
  }
  return losses;
}

}  // namespace

Array forward(const Layer& layer, std::int64_t samples, const Array& input, const std::vector<Array>& parameters,
              const std::vector<std::int32_t>& labels) {
  switch (layer.kind) {
    case LayerKind::convolution:
      return convolution(layer, samples, input, parameters[0], parameters[1]);
    case LayerKind::linear:
      return linear(layer, samples, input, parameters[0], parameters[1]);
    case LayerKind::max_pool:
      return max_pool(layer, samples, input);
    case LayerKind::average_pool:
      return average_pool(layer, samples, input);
    case LayerKind::softmax_cross_entropy:
      return cross_entropy(samples, input, labels);
    case LayerKind::relu: {
      Array output = input;
      for (double& value : output) value = std::max(value, 0.0);
      return output;
    }
    default:
      throw std::logic_error("no reference for this kind of layer");
  }
}

}  // namespace sluice::reference
