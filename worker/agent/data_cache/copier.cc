#include "worker/agent/data_cache/copier.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <deque>
#include <exception>
#include <fcntl.h>
#include <functional>
#include <optional>
#include <string>
#include <sys/stat.h>
#include <system_error>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include "common/base/mutex.h"

namespace ringmaster::agent {
namespace {

// Allows enough parallel requests for network storage. All threads together buffer 4 MiB.
constexpr int kThreads = 4;
constexpr std::size_t kMostWaiting = 256;  // maximum number of queued files

// A file to open, or a segment of an open file.
struct Work {
  SourceEntry file;
  std::shared_ptr<FileCopy> copy;  // null: `file` is to be opened
  std::int64_t segment = 0;
};

// The queue from the walker to the copying threads. Thread-safe.
class WorkQueue {
 public:
  // Waits while the queue is full. Returns false if `stop` was requested.
  bool Add(Work work, const std::stop_token& stop) {
    MutexLock lock(mutex_);
    if (!changed_.Wait(mutex_, stop,
                       [&]() RINGMASTER_REQUIRES(mutex_) { return work_.size() < kMostWaiting; }))
      return false;
    work_.push_back(std::move(work));
    changed_.NotifyAll();
    return true;
  }
  // Adds all segments of the file except the first, which the thread that opened the file copies
  // itself. Puts them first in the queue, even if it is full. Call after Take() returned the file.
  void AddSegments(const std::shared_ptr<FileCopy>& copy) {
    const MutexLock lock(mutex_);
    --opening_;
    for (std::int64_t segment = copy->segments() - 1; segment > 0; --segment) {
      work_.push_front({{}, copy, segment});
    }
    changed_.NotifyAll();
  }
  void Close() {
    const MutexLock lock(mutex_);
    closed_ = true;
    changed_.NotifyAll();
  }
  // Returns nothing if the queue is closed and drained, or if `stop` was requested. Waits while a
  // file is being opened, because the file may add segments.
  std::optional<Work> Take(const std::stop_token& stop) {
    MutexLock lock(mutex_);
    const auto settled = [&]() RINGMASTER_REQUIRES(mutex_) {
      return !work_.empty() || (closed_ && opening_ == 0);
    };
    if (!changed_.Wait(mutex_, stop, settled) || work_.empty()) return std::nullopt;
    Work work = std::move(work_.front());
    work_.pop_front();
    if (work.copy == nullptr) ++opening_;
    changed_.NotifyAll();
    return work;
  }

 private:
  Mutex mutex_;
  StoppableCondVar changed_;
  std::deque<Work> work_ RINGMASTER_GUARDED_BY(mutex_);
  int opening_ RINGMASTER_GUARDED_BY(mutex_) = 0;  // number of files taken but not yet opened
  bool closed_ RINGMASTER_GUARDED_BY(mutex_) = false;
};

class Copier {
 public:
  Copier(const SourceFolder& from, const std::filesystem::path& to, std::atomic<std::int64_t>& done,
         const std::stop_token& stop)
      : from_(from), to_(to), done_(done), on_stop_(stop, [this] { halt_.request_stop(); }) {}

  Result<void> Copy(const SourceSize& expected) {
    SourceSize found;
    {
      std::vector<std::jthread> threads;
      Guard([&] {
        for (int i = 0; i < kThreads; ++i) {
          threads.emplace_back([this] { Guard([this] { return CopyFiles(); }); });
        }
        return from_.Walk(halt_.get_token(), [&](const SourceEntry& entry) {
          found.Add(entry);
          return Visit(entry);
        });
      });
      queue_.Close();
    }  // joins the threads
    const MutexLock lock(mutex_);
    if (error_.has_value()) return *error_;
    if (found == expected) return {};
    return Error{ErrorKind::kConflict,
                 "files were added to or removed from the data source during the copy; start the "
                 "job when the data source no longer changes"};
  }

 private:
  Result<void> Visit(const SourceEntry& entry) {
    std::error_code failed;
    switch (entry.kind) {
      case SourceEntry::Kind::kFile:
        // If the copy was stopped, Add() does nothing, and the walk ends at the next entry.
        queue_.Add({entry, nullptr, 0}, halt_.get_token());
        return {};
      case SourceEntry::Kind::kFolder:
        std::filesystem::create_directory(to_ / entry.path, failed);
        break;
      case SourceEntry::Kind::kLink:
        std::filesystem::create_symlink(entry.link, to_ / entry.path, failed);
        break;
    }
    if (!failed) return {};
    return Error{ErrorKind::kUnavailable,
                 "writing " + entry.path.string() + " failed: " + failed.message()};
  }

  // An error on any thread stops the other threads, which would otherwise wait forever.
  template <typename Run>
  void Guard(Run run) {
    try {
      if (const Result<void> ran = run(); !ran.ok()) Fail(ran.error());
    } catch (const std::exception& error) {
      Fail({ErrorKind::kInternal, std::string("the copy failed: ") + error.what()});
    }
  }

  Result<void> CopyFiles() {
    std::vector<char> buffer(FileCopy::kReadBytes);
    const std::stop_token stop = halt_.get_token();
    while (std::optional<Work> work = queue_.Take(stop)) {
      if (work->copy == nullptr) {
        Result<std::shared_ptr<FileCopy>> opened =
            FileCopy::Open(from_.path(), to_, work->file.path, work->file.bytes, stop);
        if (!opened.ok()) return opened.error();
        work->copy = *std::move(opened);
        queue_.AddSegments(work->copy);
      }
      Result<void> copied = work->copy->CopySegment(work->segment, buffer, done_, stop);
      if (!copied.ok()) return copied;
    }
    return {};
  }

  // Keeps the first error and stops all threads.
  void Fail(const Error& error) {
    const MutexLock lock(mutex_);
    if (!error_.has_value()) error_ = error;
    halt_.request_stop();
  }

  const SourceFolder& from_;
  const std::filesystem::path& to_;
  std::atomic<std::int64_t>& done_;
  WorkQueue queue_;
  std::stop_source halt_;
  Mutex mutex_;
  std::optional<Error> error_ RINGMASTER_GUARDED_BY(mutex_);
  std::stop_callback<std::function<void()>> on_stop_;
};

// The interval at which opening a file with a lease is retried.
constexpr std::chrono::milliseconds kAskAgain{20};
constexpr mode_t kReadOnly = 0444;

std::int64_t ChangedAt(const struct stat& file) {
  return std::int64_t{file.st_mtim.tv_sec} * 1'000'000'000 + file.st_mtim.tv_nsec;
}

// Waits until a lease on the file ends. Never waits on pipes. Fails as open(2), or with ECANCELED.
int OpenToRead(const std::filesystem::path& file, const std::stop_token& stop) {
  for (;;) {
    const int descriptor = open(file.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (descriptor >= 0 || errno != EWOULDBLOCK) return descriptor;
    if (stop.stop_requested()) {
      errno = ECANCELED;
      return -1;
    }
    std::this_thread::sleep_for(kAskAgain);
  }
}

// Returns the number of bytes read, 0 at the end, or -1 with errno set.
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

Result<void> CopyFolder(const SourceFolder& from, const std::filesystem::path& to,
                        const SourceSize& expected, std::atomic<std::int64_t>& done,
                        const std::stop_token& stop) {
  return Copier(from, to, done, stop).Copy(expected);
}

OpenFile::~OpenFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

FileCopy::FileCopy(std::filesystem::path name, std::int64_t bytes, int from, int to)
    : name_(std::move(name)), bytes_(bytes), from_(from), to_(to), open_segments_(segments()) {}

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
  if (source < 0 && read_error == ECANCELED)
    return Error{ErrorKind::kCancelled, "the agent is stopping"};
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
    if (stop.stop_requested()) return Error{ErrorKind::kCancelled, "the agent is stopping"};
    const auto wanted = std::min(buffer.size(), static_cast<std::size_t>(end - at));
    const ssize_t read = ReadSome(from_.descriptor(), buffer.first(wanted), at);
    if (read < 0) return Failed("reading", errno);
    if (read == 0) return Changed();
    if (!WriteBytes(to_.descriptor(), buffer.first(static_cast<std::size_t>(read)), at)) {
      return Failed("writing", errno);
    }
    // The data is read only once, and cached pages would count towards the container's memory.
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
  return {ErrorKind::kConflict, name_.string() +
                                    " of the data source changed during the copy; start the job "
                                    "when the data source no longer changes"};
}

Error FileCopy::Failed(const char* doing, int error) const {
  return {ErrorKind::kUnavailable,
          std::string(doing) + " " + name_.string() + " failed: " + std::strerror(error)};
}

}  // namespace ringmaster::agent
