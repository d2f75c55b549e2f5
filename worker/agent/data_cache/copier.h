#pragma once

// Copies a source folder into a data cache with several threads. The calling thread walks the
// source, creates folders and links, and queues files; the other threads copy the files in
// segments. Parallel requests speed up large files on network storage, such as a data set in a
// single RecordIO file. A bounded queue and one buffer per thread limit the memory. Used by
// data_cache.cc.

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <stop_token>

#include "common/base/result.h"
#include "worker/agent/data_cache/source_folder.h"

namespace ringmaster::agent {

// Blocks until all files are copied, `stop` is requested (kCancelled, after at most one read) or an
// operation fails (its error). All threads have ended when the function returns. Adds the number of
// bytes written to `done`. kConflict: the source differs from `expected`.
Result<void> CopyFolder(const SourceFolder& from, const std::filesystem::path& to,
                        const SourceSize& expected, std::atomic<std::int64_t>& done,
                        const std::stop_token& stop);

// An open descriptor, which the destructor closes.
class OpenFile {
 public:
  explicit OpenFile(int descriptor) : descriptor_(descriptor) {}
  ~OpenFile();
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  int descriptor() const { return descriptor_; }

 private:
  const int descriptor_;
};

// Copies one file in segments and detects whether the source file changed meanwhile. Thread-safe:
// segments may be copied at the same time.
class FileCopy {
 public:
  static constexpr std::int64_t kSegmentBytes = std::int64_t{64} << 20;
  static constexpr std::size_t kReadBytes = std::size_t{1} << 20;  // size of one read

  // Opens `from` / `name`, whose size is `bytes`, and creates `to` / `name`, read-only and empty,
  // in an existing folder. If the file has a lease, waits until the lease ends.
  static Result<std::shared_ptr<FileCopy>> Open(const std::filesystem::path& from,
                                                const std::filesystem::path& to,
                                                const std::filesystem::path& name,
                                                std::int64_t bytes, const std::stop_token& stop);

  // The number of segments, at least one.
  std::int64_t segments() const;

  // Copies one segment through `buffer` and adds the number of bytes written to `done`. The last
  // call also checks the file. kConflict: the file's size or modification time changed.
  Result<void> CopySegment(std::int64_t segment, std::span<char> buffer,
                           std::atomic<std::int64_t>& done, const std::stop_token& stop);

 private:
  FileCopy(std::filesystem::path name, std::int64_t bytes, int from, int to);

  Result<void> Check() const;
  Error Changed() const;
  Error Failed(const char* doing, int error) const;

  const std::filesystem::path name_;  // relative, for messages
  const std::int64_t bytes_;
  const OpenFile from_;
  const OpenFile to_;
  std::int64_t changed_at_nanos_ = 0;  // modification time of `from` when it was opened
  std::atomic<std::int64_t> open_segments_;
};

}  // namespace ringmaster::agent
