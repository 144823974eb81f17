#include "cli/command.h"

#include "core/log.h"

namespace taper {

CLI::App& add_command(CLI::App& parent, const std::string& group, const std::string& name,
                      const std::string& summary) {
  CLI::App& app = *parent.add_subcommand(name, summary);
  app.group(group);
  return app;
}

CLI::App& add_command_group(CLI::App& parent, const std::string& group, const std::string& name,
                            const std::string& summary) {
  CLI::App& app = add_command(parent, group, name, summary);
  app.require_subcommand(1);
  return app;
}

CLI::App& add_subcommand(CLI::App& group, const std::string& name, const std::string& summary) {
  return add_command(group, "Commands", name, summary);
}

void add_json(CLI::App& app, bool& json) {
  app.add_flag("--json", json, "print one JSON object and nothing else on stdout");
}

void add_quiet(CLI::App& app) {
  app.add_flag_callback(
      "-q,--quiet", [] { set_log_level(LogLevel::kQuiet); },
      "no progress on stderr; warnings and errors stay");
}

void add_threads(CLI::App& app, int& threads) {
  app.add_option("-j,--threads", threads, "threads to use, 0 for one a core")
      ->type_name("N")
      ->check(CLI::Range(0, 1024));
}

}  // namespace taper
