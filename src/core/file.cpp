#include "core/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/fs.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <system_error>
#include <utility>

#include "core/error.h"

namespace taper {
namespace {

namespace fs = std::filesystem;

constexpr size_t kBufferBytes = size_t{1} << 20;
constexpr std::string_view kTemporaryMark = ".tmp-";

std::string reason(int error) { return std::generic_category().message(error); }

fs::path folder_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

// What to do about `error` when reading or writing `path`.
std::string next_step(int error, const fs::path& path) {
  switch (error) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return "free some space, or choose a folder on another disk";
    case EACCES:
    case EPERM:
      return fmt::format("check the permissions with: ls -ld {} {}", folder_of(path).string(),
                         path.string());
    case EROFS:
      return "the disk is mounted read-only: choose a folder on another disk";
    case EMFILE:
    case ENFILE:
      return "raise the limit on open files (ulimit -n)";
    case ENOMEM:
      return "free some memory, or raise the limit on address space (ulimit -v)";
    default:
      return "";
  }
}

[[noreturn]] void throw_read_error(const fs::path& path, int error) {
  if (error == ENOENT || error == ENOTDIR) {
    throw FormatError(fmt::format("{}: no such file", path.string()),
                      "check the path; relative paths start at the current folder");
  }
  throw ResourceError(fmt::format("{}: cannot read: {}", path.string(), reason(error)),
                      next_step(error, path));
}

[[noreturn]] void throw_write_error(const fs::path& path, int error) {
  if (error == ENOENT || error == ENOTDIR) {
    const std::string folder = folder_of(path).string();
    throw ResourceError(
        fmt::format("{}: cannot write: the folder {} does not exist", path.string(), folder),
        fmt::format("create it with: mkdir -p {}", folder));
  }
  throw ResourceError(fmt::format("{}: cannot write: {}", path.string(), reason(error)),
                      next_step(error, path));
}

// Closes on scope exit.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

int open_for_reading(const fs::path& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) throw_read_error(path, errno);
  return fd;
}

void sync_path(const fs::path& path) {
  const Descriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (fd.get() < 0) throw_write_error(path, errno);
  // Some network file systems cannot sync a folder (EINVAL): nothing more can be done there.
  if (::fsync(fd.get()) != 0 && errno != EINVAL) throw_write_error(path, errno);
}

void write_all(int fd, const void* data, size_t size, const fs::path& target) {
  const char* bytes = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t written = ::write(fd, bytes, size);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw_write_error(target, errno);
    bytes += written;
    size -= static_cast<size_t>(written);
  }
}

// A sibling of `target` that no process uses; `create` tries one name and returns 0 or errno.
template <typename Create>
fs::path create_temporary(const fs::path& target, Create create) {
  static std::atomic<unsigned> next{0};
  while (true) {
    fs::path temporary = target;
    temporary += fmt::format("{}{}-{}", kTemporaryMark, ::getpid(), next++);
    const int error = create(temporary);
    if (error == 0) return temporary;
    if (error != EEXIST) throw_write_error(target, error);
  }
}

// The file behind `target` when it is a symbolic link, so that the link survives a rename.
fs::path resolve_link(const fs::path& target) {
  std::error_code ignored;
  if (!fs::is_symlink(target, ignored)) return target;
  fs::path resolved = fs::weakly_canonical(target, ignored);
  return ignored ? target : resolved;
}

// "runs/a/" names the folder runs/a.
fs::path without_trailing_slash(const fs::path& path) {
  return path.has_filename() ? path : path.parent_path();
}

}  // namespace

MappedFile::MappedFile(const fs::path& path) : path_(path) {
  const Descriptor fd(open_for_reading(path));
  struct stat status = {};
  if (::fstat(fd.get(), &status) != 0) throw_read_error(path, errno);
  if (S_ISDIR(status.st_mode))
    throw FormatError(fmt::format("{}: is a folder, expected a file", path.string()));
  if (!S_ISREG(status.st_mode)) {
    throw FormatError(fmt::format("{}: is not a regular file", path.string()),
                      "pipes and devices cannot be mapped: write the bytes to a file first");
  }
  size_ = static_cast<size_t>(status.st_size);
  if (size_ == 0) return;
  void* data = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, fd.get(), 0);
  if (data == MAP_FAILED) throw_read_error(path, errno);
  data_ = static_cast<const std::byte*>(data);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

void MappedFile::will_need(size_t begin, size_t end) const {
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  begin = begin / page * page;
  end = std::min(end, size_);
  // Only a hint: what it cannot do, reading does.
  if (begin < end)
    ::posix_madvise(const_cast<std::byte*>(data_) + begin, end - begin, POSIX_MADV_WILLNEED);
}

AtomicFile::AtomicFile(const fs::path& target) : target_(resolve_link(target)) {
  std::error_code ignored;
  const fs::file_status status = fs::status(target_, ignored);
  if (fs::is_directory(status) || !target_.has_filename()) {
    throw ConfigError(fmt::format("{}: is a folder, expected a file to write", target.string()),
                      "add a file name");
  }
  if (fs::exists(status) && !fs::is_regular_file(status)) {
    throw ConfigError(fmt::format("{}: is a device or a pipe", target.string()),
                      "results are written beside the target and renamed: name a regular file");
  }
  temporary_ = create_temporary(target_, [this](const fs::path& path) {
    fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    return fd_ < 0 ? errno : 0;
  });
}

AtomicFile::~AtomicFile() {
  if (fd_ >= 0) {
    ::close(fd_);
    ::unlink(temporary_.c_str());
  }
}

void AtomicFile::write(const void* data, size_t size) {
  TAPER_CHECK(fd_ >= 0);
  if (buffer_.size() + size > kBufferBytes) flush();
  if (size < kBufferBytes) {
    buffer_.append(static_cast<const char*>(data), size);
    return;
  }
  write_all(fd_, data, size, target_);
}

void AtomicFile::flush() {
  write_all(fd_, buffer_.data(), buffer_.size(), target_);
  buffer_.clear();
}

void AtomicFile::write_at(uint64_t offset, const void* data, size_t size) {
  TAPER_CHECK(fd_ >= 0);
  flush();
  const char* bytes = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t written = ::pwrite(fd_, bytes, size, static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw_write_error(target_, errno);
    bytes += written;
    offset += static_cast<uint64_t>(written);
    size -= static_cast<size_t>(written);
  }
}

void AtomicFile::commit() {
  TAPER_CHECK(fd_ >= 0);
  flush();
  if (::fsync(fd_) != 0) throw_write_error(target_, errno);
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) throw_write_error(target_, errno);
  ::close(std::exchange(fd_, -1));
  sync_path(folder_of(target_));
}

AtomicDirectory::AtomicDirectory(const fs::path& target, bool replace)
    : target_(without_trailing_slash(target)), replace_(replace) {
  std::error_code ignored;
  const fs::file_status status = fs::status(target_, ignored);
  if (fs::exists(status) && !replace_) {
    throw ConfigError(fmt::format("{}: already exists", target_.string()),
                      "choose another name, or remove it first");
  }
  if (fs::exists(status) && !fs::is_directory(status)) {
    throw ConfigError(fmt::format("{}: is a file, expected a folder to write", target_.string()),
                      "choose another name, or remove it first");
  }
  for (fs::path parent = folder_of(target_); !fs::exists(parent, ignored);
       parent = folder_of(parent))
    made_.push_back(parent);
  fs::create_directories(folder_of(target_), ignored);  // create_temporary says why if it cannot
  temporary_ = create_temporary(
      target_, [](const fs::path& path) { return ::mkdir(path.c_str(), 0777) != 0 ? errno : 0; });
}

AtomicDirectory::~AtomicDirectory() {
  if (committed_) return;
  std::error_code ignored;
  fs::remove_all(temporary_, ignored);
  for (const fs::path& parent : made_) fs::remove(parent, ignored);  // those that are empty
}

void AtomicDirectory::commit() {
  TAPER_CHECK(!committed_);
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(temporary_))
    if (entry.is_regular_file() || entry.is_directory()) sync_path(entry.path());
  sync_path(temporary_);
  const char* from = temporary_.c_str();
  const char* to = target_.c_str();
  int result = ::renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE);
  if (result != 0 && errno == EINVAL) result = ::rename(from, to);  // fails on a non-empty target
  bool old_is_aside = false;
  if (result != 0 && (errno == EEXIST || errno == ENOTEMPTY)) {
    if (!replace_) {
      throw ConfigError(fmt::format("{}: already exists", target_.string()),
                        "choose another name, or remove it first");
    }
    result = ::renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_EXCHANGE);
    old_is_aside = result == 0;
    if (result != 0 && errno == EINVAL) {  // no exchange on this file system: a short gap instead
      std::error_code error;
      fs::remove_all(target_, error);
      result = error ? (errno = error.value(), -1) : ::rename(from, to);
    }
  }
  if (result != 0) throw_write_error(target_, errno);
  committed_ = true;
  sync_path(folder_of(target_));
  std::error_code ignored;
  if (old_is_aside) fs::remove_all(temporary_, ignored);
}

void write_file_atomically(const fs::path& path, std::string_view text) {
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

std::string read_file(const fs::path& path, uint64_t max_bytes) {
  const Descriptor fd(open_for_reading(path));
  struct stat status = {};
  if (::fstat(fd.get(), &status) != 0) throw_read_error(path, errno);
  if (S_ISDIR(status.st_mode))
    throw FormatError(fmt::format("{}: is a folder, expected a file", path.string()));
  const auto too_large = [&] {
    return FormatError(
        fmt::format("{}: larger than the {} bytes allowed here", path.string(), max_bytes));
  };
  if (S_ISREG(status.st_mode) && static_cast<uint64_t>(status.st_size) > max_bytes)
    throw too_large();
  // The size is a hint only: files in /proc report 0, pipes have none, files grow.
  std::string text(static_cast<size_t>(status.st_size) + 1, '\0');
  size_t used = 0;
  while (true) {
    if (used == text.size()) text.resize(2 * text.size() + 4096);
    const ssize_t count = ::read(fd.get(), text.data() + used, text.size() - used);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw_read_error(path, errno);
    if (count == 0) break;
    used += static_cast<size_t>(count);
    if (used > max_bytes) throw too_large();
  }
  text.resize(used);
  return text;
}

int remove_stale_temporaries(const fs::path& folder) {
  int removed = 0;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    const size_t mark = name.rfind(kTemporaryMark);
    if (mark == std::string::npos) continue;
    const char* end = name.data() + name.size();
    pid_t pid = 0;
    const auto parsed = std::from_chars(name.data() + mark + kTemporaryMark.size(), end, pid);
    if (parsed.ec != std::errc() || pid <= 0 || parsed.ptr == end || *parsed.ptr != '-') continue;
    unsigned number = 0;
    const auto tail = std::from_chars(parsed.ptr + 1, end, number);
    if (tail.ec != std::errc() || tail.ptr != end) continue;
    if (::kill(pid, 0) == 0 || errno != ESRCH) continue;  // its writer still runs
    std::error_code ignored;
    if (fs::remove_all(entry.path(), ignored) > 0 && !ignored) ++removed;
  }
  return removed;
}

}  // namespace taper
