#include "worker/agent/data_cache/file_copy.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <fcntl.h>
#include <mutex>
#include <string>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace ringmaster::agent {
namespace {

// Nobody is told when a lease ends.
constexpr std::chrono::milliseconds kAskAgain{20};
constexpr mode_t kReadOnly = 0444;

std::int64_t ChangedAt(const struct stat& file) {
  return std::int64_t{file.st_mtim.tv_sec} * 1'000'000'000 + file.st_mtim.tv_nsec;
}

void Wait(std::chrono::milliseconds time, const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any never;
  std::unique_lock lock(mutex);
  never.wait_for(lock, stop, time, [] { return false; });
}

// -1 and errno as of open(2); ECANCELED once stopped. Never blocks on what took the file's place.
int OpenToRead(const std::filesystem::path& file, const std::stop_token& stop) {
  for (;;) {
    const int descriptor = open(file.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (descriptor >= 0 || errno != EWOULDBLOCK) return descriptor;
    Wait(kAskAgain, stop);
    if (!stop.stop_requested()) continue;
    errno = ECANCELED;
    return -1;
  }
}

// Bytes read, 0 at the end, -1 and errno.
ssize_t ReadSome(int file, std::span<char> buffer, std::int64_t at) {
  for (;;) {
    const ssize_t read = pread(file, buffer.data(), buffer.size(), at);
    if (read >= 0 || errno != EINTR) return read;
  }
}

bool WriteBytes(int file, std::span<const char> bytes, std::int64_t at) {
  while (!bytes.empty()) {
    const ssize_t written = pwrite(file, bytes.data(), bytes.size(), at);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(written));
    at += written;
  }
  return true;
}

}  // namespace

OpenFile::~OpenFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

FileCopy::FileCopy(std::filesystem::path name, std::int64_t bytes, int from, int to)
    : name_(std::move(name)),
      bytes_(bytes),
      from_(from),
      to_(to),
      open_segments_(std::max<std::int64_t>(1, (bytes + kSegmentBytes - 1) / kSegmentBytes)) {}

std::int64_t FileCopy::segments() const {
  return std::max<std::int64_t>(1, (bytes_ + kSegmentBytes - 1) / kSegmentBytes);
}

Result<std::shared_ptr<FileCopy>> FileCopy::Open(const std::filesystem::path& from,
                                                 const std::filesystem::path& to,
                                                 const std::filesystem::path& name,
                                                 std::int64_t bytes, const std::stop_token& stop) {
  const int source = OpenToRead(from / name, stop);
  const int read_error = errno;
  const int target = source < 0
                         ? -1
                         : open((to / name).c_str(),
                                O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, kReadOnly);
  const int write_error = errno;
  const std::shared_ptr<FileCopy> copy(new FileCopy(name, bytes, source, target));
  if (source < 0 && read_error == ECANCELED) return Error{ErrorKind::kCancelled, "the agent ends"};
  if (source < 0) return copy->Failed("reading", read_error);
  if (target < 0) return copy->Failed("writing", write_error);
  struct stat file {};
  if (fstat(source, &file) != 0) return copy->Failed("reading", errno);
  if (!S_ISREG(file.st_mode) || file.st_size != bytes) return copy->Changed();
  copy->changed_at_nanos_ = ChangedAt(file);
  posix_fadvise(source, 0, 0, POSIX_FADV_SEQUENTIAL);
  return copy;
}

Result<void> FileCopy::CopySegment(std::int64_t segment, std::span<char> buffer,
                                   std::atomic<std::int64_t>& done, const std::stop_token& stop) {
  std::int64_t at = segment * kSegmentBytes;
  const std::int64_t end = std::min(at + kSegmentBytes, bytes_);
  while (at < end) {
    if (stop.stop_requested()) return Error{ErrorKind::kCancelled, "the agent ends"};
    const auto wanted = std::min(buffer.size(), static_cast<std::size_t>(end - at));
    const ssize_t read = ReadSome(from_.descriptor(), buffer.first(wanted), at);
    if (read < 0) return Failed("reading", errno);
    if (read == 0) return Changed();
    if (!WriteBytes(to_.descriptor(), buffer.first(static_cast<std::size_t>(read)), at)) {
      return Failed("writing", errno);
    }
    // Read once and never again: cached pages would count against the container too.
    posix_fadvise(from_.descriptor(), at, read, POSIX_FADV_DONTNEED);
    at += read;
    done += read;
  }
  return --open_segments_ == 0 ? Check() : Result<void>();
}

Result<void> FileCopy::Check() const {
  struct stat file {};
  if (fstat(from_.descriptor(), &file) != 0) return Failed("reading", errno);
  if (file.st_size != bytes_ || ChangedAt(file) != changed_at_nanos_) return Changed();
  return {};
}

Error FileCopy::Changed() const {
  return {ErrorKind::kConflict,
          name_.string() +
              " of the data source changed while it was copied; start the job when "
              "nobody writes there any more"};
}

Error FileCopy::Failed(const char* doing, int error) const {
  return {ErrorKind::kUnavailable,
          std::string(doing) + " " + name_.string() + " failed: " + std::strerror(error)};
}

}  // namespace ringmaster::agent
