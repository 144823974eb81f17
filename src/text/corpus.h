// Text corpora: the files of a command line, read from front to back.
#pragma once

#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

#include "core/file.h"

namespace taper {

// `inputs` with each folder replaced by its .txt files, at any depth, in the order of their names.
// FormatError for a path that does not exist and for a folder that holds no .txt file.
std::vector<std::filesystem::path> corpus_files(std::span<const std::filesystem::path> inputs);

// A mapped text file that is read from front to back: pages already used are given back to the
// system, so that memory stays bounded. Reading them again stays valid.
class MappedText {
 public:
  explicit MappedText(const std::filesystem::path& path) : file_(path) {}
  std::string_view text() const {
    return {reinterpret_cast<const char*>(file_.bytes().data()), file_.bytes().size()};
  }
  // Says that text() was used up to the start of `rest`, a part of it; returns how many bytes that
  // is.
  int64_t used_up_to(std::string_view rest) const;

 private:
  MappedFile file_;
  mutable size_t released_ = 0;
};

int64_t total_file_size(std::span<const std::filesystem::path> files);

}  // namespace taper
