// Files that taper reads at run time and that come with it: bench/peers, configs.
#pragma once

#include <filesystem>

namespace taper {

// The running program, from /proc; ResourceError without it.
std::filesystem::path current_program();

// `name` ("bench/peers/train_torch.py") in the working directory, else in ../share/taper beside the
// program's folder (installed), else in the source tree (built in build/<preset>/bin). ConfigError
// naming these places when it is in none of them.
std::filesystem::path data_file(const std::filesystem::path& name,
                                const std::filesystem::path& program = current_program());

}  // namespace taper
