#include <iostream>

#include "core/error.h"
#include "core/storage/profile_file.h"
#include "core/text.h"
#include "optimizer/command/commands.h"
#include "optimizer/import/msr.h"
#include "optimizer/import/pipedream.h"

namespace sluice {

namespace po = boost::program_options;

int import_command(const Words& words) {
  CommandSyntax syntax{
      "sluice import pipedream|msr FILE -o PROFILE", po::options_description("options"), {"format", "file"}};
  syntax.table.add_options()  //
      ("format", po::value<std::string>()->required(),
       "of the file: pipedream (text) or msr (dnn-partitioning's JSON)")     //
      ("file", po::value<std::string>()->required(), "the foreign profile")  //
      ("output,o", po::value<std::string>()->required(), "the profile to write");
  const auto values = parse_options(syntax, words, std::cout);
  if (!values) return static_cast<int>(ExitCode::done);
  const std::string& file = (*values)["file"].as<std::string>();
  const bool msr = choice(*values, "format", {"pipedream", "msr"}) == 1;
  const ImportedProfile imported = msr ? ImportedProfile{import_msr(file), {}} : import_pipedream(file);
  for (const std::string& warning : imported.warnings) std::cerr << "sluice: warning: " << warning << std::endl;
  const std::string& output = (*values)["output"].as<std::string>();
  write_profile(output, imported.profile, {command_line("sluice import", words), resolved_options(*values)});
  std::cout << output << ": " << imported.profile.model.name << ", " << imported.profile.model.layers.size()
            << " layers\n";
  return static_cast<int>(ExitCode::done);
}

}  // namespace sluice
