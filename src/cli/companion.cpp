#include "cli/companion.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "cli/command.h"
#include "core/error.h"

namespace taper {
namespace {

constexpr const char* kProgram = "taper-train";

struct CompanionCommand {
  const char* name;
  const char* summary;
};

constexpr CompanionCommand kCommands[] = {
    {"train", "train a model, or fine-tune one, and taper its norms away"},
};

}  // namespace

bool is_companion_command(int argc, const char* const* argv) {
  if (argc < 2) return false;
  const std::string_view command = argv[1];
  if (command == "help" && argc > 2) return is_companion_command(argc - 1, argv + 1);
  if (command == "bench") return argc > 2 && std::string_view(argv[2]) == "train";
  return command == "train" || command == "analyze" || command == "reproduce";
}

void start_companion(int argc, const char* const* argv) {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) {
    throw ResourceError(fmt::format("/proc/self/exe: {}", error.message()),
                        "taper finds taper-train beside itself through /proc: mount it");
  }
  const std::string program = (self.parent_path() / kProgram).string();
  std::vector<char*> arguments = {const_cast<char*>(program.c_str())};
  for (int i = 1; i < argc; ++i) arguments.push_back(const_cast<char*>(argv[i]));
  arguments.push_back(nullptr);
  ::execv(program.c_str(), arguments.data());
  if (errno == ENOENT) {
    throw ConfigError(fmt::format("taper {} needs the program {}, which is not in {}", argv[1],
                                  kProgram, self.parent_path().string()),
                      "build it with: make build");
  }
  throw ResourceError(
      fmt::format("cannot start {}: {}", program, std::generic_category().message(errno)));
}

void list_companion_commands(CLI::App& root) {
  for (const CompanionCommand& command : kCommands)
    add_command(root, kTrain, command.name, command.summary);
}

}  // namespace taper
