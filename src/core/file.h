// Files: read-only mappings and writers that never leave a partial result behind.
//
// Writers follow one protocol: write a temporary sibling ("<name>.tmp-<pid>-<n>"), fsync it, rename
// it over the target, fsync the folder. A crash at any instant leaves the old file or the new one.
// All functions throw ResourceError for what the system refuses (missing permission, full disk) and
// FormatError for a file that is absent or too large; both name the path and the system's reason. A
// target that is a folder, a device or a pipe is a ConfigError.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace taper {

// A read-only memory map of a whole file. Movable. An empty file maps to an empty span.
class MappedFile {
 public:
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  // Lets the system read bytes [begin, end) from the disk in the background; a range beyond the
  // file is cut.
  void will_need(size_t begin, size_t end) const;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

// Writes a file that appears under its name only at commit(). Without commit() the temporary is
// removed.
class AtomicFile {
 public:
  explicit AtomicFile(const std::filesystem::path& target);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(const void* data, size_t size);
  void write(std::string_view text) { write(text.data(), text.size()); }
  // Overwrites bytes already written (a header whose counts are known only at the end).
  void write_at(uint64_t offset, const void* data, size_t size);
  void commit();

 private:
  void flush();

  std::filesystem::path target_;
  std::filesystem::path temporary_;
  std::string buffer_;  // bytes not yet handed to the system
  int fd_ = -1;
};

// Builds a folder that appears under its name only at commit(): fill path(), then commit(), which
// fsyncs every file in it and renames. An existing target is replaced if `replace` (the two swap in
// one step where the file system can), else ConfigError. Missing parents are made,
// and removed again without commit().
class AtomicDirectory {
 public:
  explicit AtomicDirectory(const std::filesystem::path& target, bool replace = false);
  ~AtomicDirectory();
  AtomicDirectory(const AtomicDirectory&) = delete;
  AtomicDirectory& operator=(const AtomicDirectory&) = delete;

  const std::filesystem::path& path() const { return temporary_; }
  void commit();

 private:
  std::filesystem::path target_;
  std::filesystem::path temporary_;
  std::vector<std::filesystem::path> made_;  // parents that were missing, innermost first
  bool replace_;
  bool committed_ = false;
};

void write_file_atomically(const std::filesystem::path& path, std::string_view text);
std::string read_file(const std::filesystem::path& path, uint64_t max_bytes = uint64_t{1} << 30);

// Removes temporaries in `folder` that belong to processes that no longer run (left by a crash).
// Returns how many.
int remove_stale_temporaries(const std::filesystem::path& folder);

}  // namespace taper
