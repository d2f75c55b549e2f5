#pragma once

// The memory of the table's rows, on the host or on a GPU (gpu/kernel_head_device.h). Access it
// only through this interface unless on_host() is true.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace ringmaster::trainer::partial_fc {

// Not thread-safe. On a GPU, throws c10::OutOfMemoryError if memory is exhausted, and c10::Error if
// the device fails; on a host, throws std::bad_alloc.
class RowStorage {
 public:
  virtual ~RowStorage() = default;

  virtual bool on_host() const = 0;
  // Allocates memory with unspecified values.
  virtual std::shared_ptr<float> Allocate(std::size_t count) = 0;
  // Copies between this memory and the host, in either direction, or within one of them. The copy
  // is complete on return. REQUIRES: equal sizes, no overlap.
  virtual void Copy(std::span<const float> from, std::span<float> to) = 0;

  // Writes initial rows, from the class `first` on: centres drawn from `seed` (initial_centre.h),
  // and zero momentum. The last bits may differ between kinds of storage.
  virtual void Initialise(uint64_t seed, int64_t first, int64_t dimension,
                          std::span<float> rows) = 0;
  // Returns RowsChecksum() of rows in this memory.
  virtual uint64_t Checksum(int64_t first, int64_t row_floats, std::span<const float> rows) = 0;
};

// Returns the storage in host memory, which is thread-safe and lives as long as the process.
RowStorage& HostRows();

// Memory that grows on demand. Its contents are lost when it grows.
class PlacedFloats {
 public:
  std::span<float> Of(RowStorage& place, std::size_t count);

 private:
  std::shared_ptr<float> memory_;
  std::size_t count_ = 0;
};

}  // namespace ringmaster::trainer::partial_fc
