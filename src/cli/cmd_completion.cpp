// taper completion: a script that completes the command line in a shell.
#include <memory>
#include <string>

#include "cli/command.h"
#include "cli/completion.h"
#include "cli/output.h"

namespace taper {
namespace {

void run(const CLI::App& root, const std::string& shell) {
  const CommandInfo tree = describe(root, root.get_name());
  if (shell == "bash")
    print_text(bash_completion(tree));
  else if (shell == "zsh")
    print_text(zsh_completion(tree));
  else
    print_text(fish_completion(tree));
}

}  // namespace

void setup_completion(CLI::App& parent) {
  auto shell = std::make_shared<std::string>();
  CLI::App& app =
      add_command(parent, kHelp, "completion", "print a script that completes commands in a shell");
  app.add_option("SHELL", *shell, "the shell")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  app.footer(
      "An installed taper has all three in place already.\n\n"
      "Examples:\n"
      "  source <(taper completion bash)      # this shell only\n"
      "  taper completion zsh > ~/.zfunc/_taper      # a folder of $fpath\n"
      "  taper completion fish > ~/.config/fish/completions/taper.fish");
  app.callback([&parent, shell] { run(parent, *shell); });
}

}  // namespace taper
