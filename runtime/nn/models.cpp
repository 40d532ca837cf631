#include "runtime/nn/models.h"

#include <array>
#include <vector>

#include "core/error.h"
#include "core/text.h"

namespace sluice {
namespace {

constexpr std::array kNames{"lenet5", "vgg11", "vgg16"};

Model lenet5(ModelBuilder builder, std::int64_t classes) {
  // The paper pads its 28x28 digits to 32x32; padding 2 in conv1 does the same.
  builder.convolution("conv1", 6, 5, 1, 2).relu("relu1").max_pool("pool1", 2, 2);
  builder.convolution("conv2", 16, 5).relu("relu2").max_pool("pool2", 2, 2);
  builder.linear("fc1", 120).relu("relu3").linear("fc2", 84).relu("relu4").linear("fc3", classes);
  return builder.softmax_cross_entropy("loss");
}

/// Five blocks of 3x3 convolutions, each halving the image.
Model vgg(ModelBuilder builder, std::int64_t classes, const std::vector<std::vector<std::int64_t>>& blocks) {
  int convolutions = 0, pools = 0;
  for (const auto& block : blocks) {
    for (const std::int64_t channels : block) {
      ++convolutions;
      builder.convolution(text("conv", convolutions), channels, 3, 1, 1).relu(text("relu", convolutions));
    }
    builder.max_pool(text("pool", ++pools), 2, 2);
  }
  for (int i = 1; i <= 2; ++i)
    builder.linear(text("fc", i), 4096).relu(text("relu", convolutions + i)).dropout(text("dropout", i), 0.5);
  return builder.linear("fc3", classes).softmax_cross_entropy("loss");
}

}  // namespace

std::span<const char* const> model_names() { return kNames; }

Model build_model(const std::string& name, ImageShape image, std::int64_t classes, std::int64_t microbatch) {
  const auto builder = [&] { return ModelBuilder(name, image, classes, microbatch); };
  if (name == "lenet5") return lenet5(builder(), classes);
  if (name == "vgg11") return vgg(builder(), classes, {{64}, {128}, {256, 256}, {512, 512}, {512, 512}});
  if (name == "vgg16")
    return vgg(builder(), classes, {{64, 64}, {128, 128}, {256, 256, 256}, {512, 512, 512}, {512, 512, 512}});
  std::string known;
  for (const char* each : kNames) known += text(known.empty() ? "" : ", ", each);
  throw bad_input(text("unknown model '", name, "': known are ", known));
}

}  // namespace sluice
