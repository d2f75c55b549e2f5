#pragma once

// The memory of the table's rows, on the host or on a GPU (gpu/kernel_head_device.h). Access it
// only through this interface unless on_host() is true.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace ringmaster::trainer::partial_fc {

// Thread-safety: one thread. Throws what LibTorch throws: c10::OutOfMemoryError where there is no
// memory left, c10::Error where the device fails.
class RowStorage {
 public:
  virtual ~RowStorage() = default;

  virtual bool on_host() const = 0;
  // Unspecified values.
  virtual std::shared_ptr<float> Allocate(std::size_t count) = 0;
  // Between this place and the host, either way, or within one of them; done when it returns.
  // REQUIRES: one size, no overlap.
  virtual void Copy(std::span<const float> from, std::span<float> to) = 0;

  // Writes rows as they are before training, from the class `first` on: centres drawn from `seed`
  // (initial_centre.h), no momentum. Places of two kinds may differ in the last bits.
  virtual void Initialise(uint64_t seed, int64_t first, int64_t dimension,
                          std::span<float> rows) = 0;
  // RowsChecksum() of rows that lie here.
  virtual uint64_t Checksum(int64_t first, int64_t row_floats, std::span<const float> rows) = 0;
};

// The host's memory. Lives as long as the process; thread-safe.
RowStorage& HostRows();

// Memory in a place that grows when more is asked for. Its content is then lost.
class PlacedFloats {
 public:
  std::span<float> Of(RowStorage& place, std::size_t count);

 private:
  std::shared_ptr<float> memory_;
  std::size_t count_ = 0;
};

}  // namespace ringmaster::trainer::partial_fc
