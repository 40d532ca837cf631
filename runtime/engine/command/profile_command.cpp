#include <cstdlib>
#include <iostream>

#include "core/storage/profile_file.h"
#include "runtime/engine/agreement.h"
#include "runtime/engine/command/commands.h"
#include "runtime/engine/command/devices.h"
#include "runtime/engine/launch.h"
#include "runtime/engine/profiler.h"
#include "runtime/nn/models.h"

namespace sluice {

namespace po = boost::program_options;

void profile_command(Communicator& world, const Words& words) {
  std::string model_name, device_name, output;
  std::int64_t image = 0, channels = 0, classes = 0, microbatch = 0;
  ProfilerSettings settings;
  po::options_description table("Measures what each layer of a model costs on this machine. Options");
  auto add = table.add_options();
  add("model", po::value(&model_name)->required(), "lenet5, vgg11 or vgg16");
  add("image", po::value(&image)->required(), "height and width of the images [pixels]");
  add("channels", po::value(&channels)->default_value(3), "channels of the images");
  add("classes", po::value(&classes)->default_value(10), "classes to tell apart");
  add("microbatch", po::value(&microbatch)->required(), "samples per micro-batch");
  add("device", po::value(&device_name)->default_value("host"), "host");
  add_threads(table, settings.threads);
  add("repeats", po::value(&settings.repeats)->default_value(20), "sweeps over the model that count");
  add("output,o", po::value(&output)->required(), "profile to write");
  add_wait_limit(table, world);
  const CommandSyntax syntax{"sluice-run profile --model M --image S --microbatch B -o PROFILE", table, {}};
  const auto values = parse_everywhere(
      world, syntax, words, [&](const po::variables_map&) { require_within("repeats", settings.repeats, 1, 1e6); });
  if (!values) return;

  on_rank_zero(world, [&] { check_writable(output, kProfileSchema); });
  arrange_ranks(world, device_name, settings.threads, std::getenv);
  std::unique_ptr<Device> device;
  Profile profile;
  collectively(world, [&] {
    device = create_device(device_name, settings.threads, 0);
    profile.model = build_model(model_name, {channels, image, image}, classes, microbatch);
  });
  profile = measure_profile(world, *device, profile.model, settings);
  on_rank_zero(world, [&] {
    write_profile(output, profile, {command_line("sluice-run profile", words), resolved_options(*values)});
  });
  if (world.rank() == 0) std::cout << "profile=" << output << " layers=" << profile.costs.size() << '\n';
}

}  // namespace sluice
