#include <iostream>
#include <map>

#include "core/error.h"
#include "core/storage/writer.h"
#include "core/text.h"
#include "runtime/comm/communicator.h"
#include "runtime/engine/agreement.h"
#include "runtime/engine/command/commands.h"
#include "runtime/engine/command/devices.h"
#include "runtime/engine/stop_request.h"

namespace sluice {
namespace {

using Command = void (*)(Communicator&, const Words&);

const std::map<std::string, Command> kCommands{
    {"probe", probe_command}, {"profile", profile_command}, {"train", train_command}};

constexpr const char* kUsage =
    "usage: sluice-run probe|profile|train [options]\n"
    "Started by srun or mpiexec, one process per rank.\n"
    "  probe    measures the links between the ranks\n"
    "  profile  measures what each layer of a model costs\n"
    "  train    trains a model by a plan\n"
    "sluice-run COMMAND --help lists a command's options.\n";

std::string version_text() {
  return text(creator(), ", ", MpiSession::library_version(), "\n", create_device("host", 1, 0)->fingerprint(),
              "\ndevices: host, fake; built without CUDA\n");
}

void run_command(Communicator& world, const Words& words) {
  if (words.empty()) throw usage_error(text("no command\n", kUsage));
  if (words[0] == "--help" || words[0] == "-h") {
    if (world.rank() == 0) std::cout << kUsage;
  } else if (words[0] == "--version") {
    if (world.rank() == 0) std::cout << version_text();
  } else if (const auto command = kCommands.find(words[0]); command != kCommands.end()) {
    command->second(world, Words(words.begin() + 1, words.end()));
  } else {
    throw usage_error(text("unknown command '", words[0], "'\n", kUsage));
  }
}

/// What every rank knows is said once; what one rank alone knows ends the job.
int report(Communicator& world, const Error& error, bool agreed) {
  const int code = static_cast<int>(error.exit_code());
  if (agreed || world.size() == 1) {
    if (world.rank() == 0) std::cerr << text("sluice-run: ", error.what(), "\n");
    return code;
  }
  const std::string answers = world.call_off(code);
  std::cerr << text("sluice-run: ", world.whoami(), ": ", error.what(), "; ", answers, "\n");
  world.leave(code);
}

int run(Communicator& world, const Words& words) {
  try {
    run_command(world, words);
    return static_cast<int>(ExitCode::done);
  } catch (const AlarmHeard& error) {
    world.leave(static_cast<int>(error.exit_code()));
  } catch (const AgreedError& error) {
    return report(world, error, true);
  } catch (const Error& error) {
    // The same words at every rank: a usage error is the same everywhere.
    return report(world, error, error.exit_code() == ExitCode::usage);
  } catch (const std::exception& error) {
    return report(world, runtime_fault(error.what()), false);
  }
}

/// A full disk behind stdout is a fault as well.
int flush_output(int code) {
  std::cout.flush();
  if (std::cout) return code;
  std::cerr << "sluice-run: standard output could not be written" << std::endl;
  return code == static_cast<int>(ExitCode::done) ? static_cast<int>(ExitCode::runtime_fault) : code;
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  try {
    const sluice::Words words(argv + 1, argv + argc);
    // Training that is asked to stop while MPI starts or ends does not die of it, and MPI's threads hear nothing of it.
    // Never destroyed: the process may still be leaving when it is asked again.
    static const auto* const until_the_end = !words.empty() && words[0] == "train" ? new sluice::StopRequest : nullptr;
    static_cast<void>(until_the_end);
    const auto settings = sluice::CommunicatorSettings::from_environment();
    sluice::MpiSession session(settings.wait_limit());
    int code = 0;
    {
      sluice::Communicator world = sluice::Communicator::world(settings);
      code = sluice::run(world, words);
    }
    code = sluice::flush_output(code);
    session.finish(code);
    return code;
  } catch (const sluice::Error& error) {
    std::cerr << "sluice-run: " << error.what() << std::endl;
    return static_cast<int>(error.exit_code());
  } catch (const std::exception& error) {
    std::cerr << "sluice-run: " << error.what() << std::endl;
    return static_cast<int>(sluice::ExitCode::runtime_fault);
  }
}
