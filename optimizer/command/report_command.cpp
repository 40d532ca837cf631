#include <iostream>

#include "core/error.h"
#include "core/storage/results_file.h"
#include "optimizer/command/commands.h"
#include "results/report.h"

namespace sluice {

namespace po = boost::program_options;

int report_command(const Words& words) {
  CommandSyntax syntax{"sluice report RESULTS [options]", po::options_description("options"), {"results"}};
  syntax.table.add_options()                                                                                  //
      ("results", po::value<std::string>()->required(), "results file, or folder of parts")                   //
      ("merge", po::bool_switch(), "first merge the parts of a run that was killed or stopped into RESULTS")  //
      ("json", po::bool_switch(), "print one JSON object");
  const auto values = parse_options(syntax, words, std::cout);
  if (!values) return static_cast<int>(ExitCode::done);
  const std::string& path = (*values)["results"].as<std::string>();
  if ((*values)["merge"].as<bool>()) merge_ended_run(path);
  const RunResults results = read_results(path);
  std::cout << ((*values)["json"].as<bool>() ? report_json(results) : report_text(results));
  return static_cast<int>(ExitCode::done);
}

}  // namespace sluice
