#include "worker/trainer/checkpoint/shard_file.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace ringmaster::trainer {
namespace {

constexpr std::size_t kPieceBytes = 8 << 20;
constexpr std::size_t kSyncBytes = 32 << 20;  // at most this much is not on disk yet
constexpr mode_t kFileMode = 0664;            // the volume's group may read it

// An open file, which the destructor closes.
class File {
 public:
  File(const std::string& path, int flags) : path_(path) {
    file_ = ::open(path.c_str(), flags | O_CLOEXEC, kFileMode);
  }
  ~File() {
    if (file_ >= 0) ::close(file_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  bool ok() const { return file_ >= 0; }
  int get() const { return file_; }

  Error Failed(const char* doing) const {
    const int why = errno;
    return {why == ENOENT ? ErrorKind::kNotFound : ErrorKind::kUnavailable,
            std::string("while ") + doing + " " + path_ + ": " + std::strerror(why)};
  }

  Result<void> Write(std::span<const std::byte> bytes, const std::stop_token& stop,
                     std::atomic<uint64_t>* taken = nullptr) {
    while (!bytes.empty()) {
      if (stop.stop_requested()) {
        return Error{ErrorKind::kCancelled, "while writing " + path_ + ": asked to stop"};
      }
      const ssize_t written =
          ::write(file_, bytes.data(), std::min<std::size_t>(bytes.size(), kPieceBytes));
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return Failed("writing");
      bytes = bytes.subspan(static_cast<std::size_t>(written));
      unsynced_ += static_cast<std::size_t>(written);
      if (unsynced_ >= kSyncBytes) {
        if (::fdatasync(file_) != 0) return Failed("writing");
        unsynced_ = 0;
      }
      if (taken != nullptr) *taken += static_cast<uint64_t>(written);
    }
    return {};
  }

  // Ensures that the data is on disk and closes the file; returns an error if either fails.
  Result<void> Finish() {
    if (::fchmod(file_, kFileMode) != 0 && errno != EPERM) return Failed("writing");
    if (::fsync(file_) != 0) return Failed("writing");
    if (::close(std::exchange(file_, -1)) != 0) return Failed("writing");
    return {};
  }

  // Reads all of `bytes` or returns an error.
  Result<void> Read(std::span<std::byte> bytes) const {
    const Result<std::size_t> got = ReadSome(bytes);
    if (!got.ok()) return got.error();
    if (*got < bytes.size()) return Damaged(path_ + ": it is truncated");
    return {};
  }

  // Reads as many of `bytes` as exist and returns the number.
  Result<std::size_t> ReadSome(std::span<std::byte> bytes) const {
    std::size_t all = 0;
    while (all < bytes.size()) {
      const ssize_t got =
          ::read(file_, bytes.data() + all, std::min<std::size_t>(bytes.size() - all, kPieceBytes));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return Failed("reading");
      if (got == 0) break;
      all += static_cast<std::size_t>(got);
    }
    return all;
  }

 private:
  const std::string& path_;
  int file_ = -1;
  std::size_t unsynced_ = 0;  // bytes written since the last sync
};

struct OpenedShard {
  ShardHeader header;
  std::size_t header_bytes = 0;
};

// Reads the header and leaves the file at the start of the data.
Result<OpenedShard> ReadHeader(const File& file, const std::string& path) {
  const auto of_file = [&](const Error& error) {
    return Error{error.kind, path + ": " + error.message, error.reason};
  };
  if (!file.ok()) return file.Failed("reading");
  std::vector<std::byte> bytes(kShardPrefixBytes);
  if (Result<void> read = file.Read(bytes); !read.ok()) return read.error();
  const Result<std::size_t> length = ShardHeaderBytes(bytes);
  if (!length.ok()) return of_file(length.error());
  bytes.resize(*length);
  if (Result<void> read = file.Read(std::span(bytes).subspan(kShardPrefixBytes)); !read.ok()) {
    return read.error();
  }
  Result<ShardHeader> header = DecodeShardHeader(bytes);
  if (!header.ok()) return of_file(header.error());
  return OpenedShard{.header = *std::move(header), .header_bytes = *length};
}

}  // namespace

std::vector<uint64_t> PartsOf(const TrainableState& state) {
  std::vector<uint64_t> parts;
  for (const auto& values : state) parts.push_back(values.size());
  return parts;
}

Result<uint64_t> WriteShard(const std::string& path, const ShardHeader& header,
                            const TrainableState& state, const std::stop_token& stop,
                            std::atomic<uint64_t>* taken) {
  const std::vector<std::byte> head = EncodeShardHeader(header);
  if (head.size() > kMaxShardHeaderBytes) {
    return Error{ErrorKind::kInvalid, "while writing " + path + ": the model has too many layers"};
  }
  File file(path, O_WRONLY | O_CREAT | O_EXCL);
  if (!file.ok()) return file.Failed("making");
  if (Result<void> written = file.Write(head, stop, taken); !written.ok()) return written.error();
  uint64_t bytes = head.size();
  for (const std::span<float> values : state) {
    if (Result<void> written = file.Write(std::as_bytes(values), stop, taken); !written.ok()) {
      return written.error();
    }
    bytes += values.size_bytes();
  }
  if (Result<void> finished = file.Finish(); !finished.ok()) return finished.error();
  return bytes;
}

Result<ShardHeader> ReadShardHeader(const std::string& path) {
  const File file(path, O_RDONLY | O_NOFOLLOW);
  Result<OpenedShard> opened = ReadHeader(file, path);
  if (!opened.ok()) return opened.error();
  return std::move(opened->header);
}

Result<LoadedShard> ReadShard(const std::string& path, const StateIdentity& identity,
                              const std::vector<uint64_t>& parts, int32_t shards) {
  const auto damaged = [&](const std::string& why) { return Damaged(path + ": " + why); };
  const File file(path, O_RDONLY | O_NOFOLLOW);
  Result<OpenedShard> opened = ReadHeader(file, path);
  if (!opened.ok()) return opened.error();
  const ShardHeader& header = opened->header;
  if (const std::string other = WhyOther(header, identity, parts, shards); !other.empty()) {
    return Error{ErrorKind::kInvalid, path + ": " + other};
  }
  const Result<uint64_t> data = ShardDataBytes(header);
  if (!data.ok()) return damaged(data.error().message);
  LoadedShard loaded{.header = header, .bytes = opened->header_bytes + *data, .values = {}};
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) return file.Failed("reading");
  if (static_cast<uint64_t>(status.st_size) != loaded.bytes) {
    return damaged("it has " + std::to_string(status.st_size) + " bytes instead of " +
                   std::to_string(loaded.bytes));
  }
  for (const uint64_t part : parts) {
    loaded.values.emplace_back(part);
    const Result<void> read = file.Read(std::as_writable_bytes(std::span(loaded.values.back())));
    if (!read.ok()) return read.error();
  }
  if (Checksum(TrainableState(loaded.values.begin(), loaded.values.end())) != header.checksum) {
    return damaged("its data does not match its checksum");
  }
  return loaded;
}

Result<void> WriteTextDurably(const std::string& path, const std::string& text) {
  File file(path, O_WRONLY | O_CREAT | O_EXCL);
  if (!file.ok()) return file.Failed("making");
  Result<void> written = file.Write(std::as_bytes(std::span(text)), {});
  return written.ok() ? file.Finish() : written;
}

Result<std::string> ReadText(const std::string& path, std::size_t limit) {
  const File file(path, O_RDONLY | O_NOFOLLOW);
  if (!file.ok()) return file.Failed("reading");
  std::string text(limit + 1, '\0');
  const Result<std::size_t> got = file.ReadSome(std::as_writable_bytes(std::span(text)));
  if (!got.ok()) return got.error();
  text.resize(*got);
  return text;
}

Result<std::optional<uint64_t>> FileBytes(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0) {
    if (S_ISREG(status.st_mode)) return std::optional(static_cast<uint64_t>(status.st_size));
    return std::optional<uint64_t>();
  }
  if (errno == ENOENT || errno == ENOTDIR) return std::optional<uint64_t>();
  return Error{ErrorKind::kUnavailable, "while reading " + path + ": " + std::strerror(errno)};
}

Result<void> SyncFolder(const std::string& folder) {
  const File file(folder, O_RDONLY | O_DIRECTORY);
  if (!file.ok() || ::fsync(file.get()) != 0) return file.Failed("writing");
  return {};
}

}  // namespace ringmaster::trainer
