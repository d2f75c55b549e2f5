#pragma once

// Blocks all readers of a file, so that a test can pause a copy at a known point. Used by the
// tests of the data cache. Linux only; the file system must support leases (ext4, xfs and tmpfs
// do).

#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <unistd.h>

namespace ringmaster {

// A lease that ends with End() or the destructor. The kernel ends it if another process has waited
// for the time in /proc/sys/fs/lease-break-time (45 s).
class FileLease {
 public:
  explicit FileLease(const std::filesystem::path& file)
      : descriptor_(open(file.c_str(), O_RDWR | O_CLOEXEC)) {
    // Choose the signal that the kernel sends to the holder: the default would end the process.
    held_ =
        fcntl(descriptor_, F_SETSIG, SIGURG) == 0 && fcntl(descriptor_, F_SETLEASE, F_WRLCK) == 0;
  }
  ~FileLease() { End(); }
  FileLease(const FileLease&) = delete;
  FileLease& operator=(const FileLease&) = delete;

  bool held() const { return held_; }
  void End() {
    if (descriptor_ >= 0) close(descriptor_);
    descriptor_ = -1;
  }

 private:
  int descriptor_;
  bool held_ = false;
};

}  // namespace ringmaster
