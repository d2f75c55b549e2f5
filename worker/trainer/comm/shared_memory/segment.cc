#include "worker/trainer/comm/shared_memory/segment.h"

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/hex.h"

namespace ringmaster::trainer {
namespace {

// The first page contains the token; the memory for callers starts at the second page.
constexpr std::size_t kPage = 4096;
constexpr std::size_t kTokenBytes = 16;

Error SegmentError(const std::string& doing) {
  return {ErrorKind::kUnavailable, "while " + doing + ": " + std::strerror(errno)};
}

std::string InHex(const std::byte* bytes) {
  return HexOf({reinterpret_cast<const char*>(bytes), kTokenBytes});
}

}  // namespace

Result<std::unique_ptr<Segment>> Segment::Create(std::size_t bytes) {
  std::unique_ptr<Segment> segment(new Segment());
  segment->fd_ = ::memfd_create("ringmaster-ranks", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (segment->fd_ < 0) return SegmentError("creating shared memory");
  // Allocate all memory now, because a later lack of memory could not be reported.
  const int full = ::posix_fallocate(segment->fd_, 0, static_cast<off_t>(kPage + bytes));
  if (full != 0) {
    errno = full;
    return SegmentError("filling " + std::to_string(bytes) + " bytes of shared memory");
  }
  ::fcntl(segment->fd_, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
  if (Result<void> mapped = segment->Map(bytes); !mapped.ok()) return mapped.error();
  if (::getrandom(segment->base_, kTokenBytes, 0) != static_cast<ssize_t>(kTokenBytes)) {
    return SegmentError("generating a token");
  }
  return segment;
}

Result<std::unique_ptr<Segment>> Segment::Open(const std::string& description, std::size_t bytes) {
  int pid = 0;
  int fd = 0;
  std::array<char, 2 * kTokenBytes + 1> token{};
  if (std::sscanf(description.c_str(), "%d %d %32s", &pid, &fd, token.data()) != 3) {
    return Error{ErrorKind::kInvalid, "'" + description + "' does not describe shared memory"};
  }
  const std::string path = "/proc/" + std::to_string(pid) + "/fd/" + std::to_string(fd);
  std::unique_ptr<Segment> segment(new Segment());
  // If the path is of another file, opening it must not have side effects.
  segment->fd_ = ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (segment->fd_ < 0) return SegmentError("opening the shared memory " + path);
  struct stat file {};
  if (::fstat(segment->fd_, &file) != 0 || !S_ISREG(file.st_mode) ||
      file.st_size != static_cast<off_t>(kPage + bytes)) {
    return Error{ErrorKind::kUnavailable, path + " is not a shared memory segment of these ranks"};
  }
  if (Result<void> mapped = segment->Map(bytes); !mapped.ok()) return mapped.error();
  if (InHex(segment->base_) != token.data()) {
    return Error{ErrorKind::kUnavailable, path + " belongs to other ranks"};
  }
  return segment;
}

Segment::~Segment() {
  if (base_ != nullptr) ::munmap(base_, mapped_);
  if (fd_ >= 0) ::close(fd_);
}

Result<void> Segment::Map(std::size_t bytes) {
  void* const base =
      ::mmap(nullptr, kPage + bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd_, 0);
  if (base == MAP_FAILED) return SegmentError("mapping shared memory");
  base_ = static_cast<std::byte*>(base);
  mapped_ = kPage + bytes;
  return {};
}

std::string Segment::description() const {
  return std::to_string(::getpid()) + " " + std::to_string(fd_) + " " + InHex(base_);
}

std::span<std::byte> Segment::memory() const { return {base_ + kPage, mapped_ - kPage}; }

}  // namespace ringmaster::trainer
