#pragma once

// A memory segment that several processes on one machine share. It is an anonymous file that its
// creator keeps open and that others open through /proc. Therefore, only processes of the same user
// and PID namespace can map it, and it is freed when the last of these processes ends. A random
// token verifies that the opened file is the intended one.

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "common/base/result.h"

namespace ringmaster::trainer {

// Thread-safety: constant after construction; callers synchronise access to the memory.
class Segment {
 public:
  // Creates a zeroed segment.
  static Result<std::unique_ptr<Segment>> Create(std::size_t bytes);
  // Maps the segment whose description() is `description`.
  static Result<std::unique_ptr<Segment>> Open(const std::string& description, std::size_t bytes);

  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  // Returns the argument of Open(), which is valid as long as this object exists.
  std::string description() const;

  std::span<std::byte> memory() const;

 private:
  Segment() = default;
  Result<void> Map(std::size_t bytes);

  int fd_ = -1;
  std::size_t mapped_ = 0;
  std::byte* base_ = nullptr;
};

}  // namespace ringmaster::trainer
