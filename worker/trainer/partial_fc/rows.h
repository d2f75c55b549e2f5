#pragma once

// Rows of the table of class centres. A row consists of the centre of a class and its momentum. The
// initial row of a class is a pure function of (seed, class). Not thread-safe.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "worker/trainer/partial_fc/class_sampling.h"
#include "worker/trainer/partial_fc/row_storage.h"

namespace ringmaster::trainer::partial_fc {

// Owns memory that a RowStorage allocates. The RowStorage must outlive the rows.
class Rows {
 public:
  Rows() = default;
  // Leaves the values uninitialised.
  Rows(ClassRange range, int64_t dimension, RowStorage& place = HostRows());
  // Initialises the values from `seed`.
  static Rows Initial(ClassRange range, int64_t dimension, uint64_t seed,
                      RowStorage& place = HostRows());
  // Copies the values to new memory of `place`. REQUIRES: one of the two storages is the host, or
  // both are the same.
  Rows On(RowStorage& place) const;

  Rows(Rows&&) = default;
  Rows& operator=(Rows&&) = default;

  const ClassRange& range() const { return range_; }
  int64_t dimension() const { return dimension_; }
  int64_t row_floats() const { return 2 * dimension_; }
  bool on_host() const { return place_->on_host(); }

  // These functions return memory of the storage, valid until the rows are moved or destroyed.
  // REQUIRES: range() contains the label or the part.
  float* centre(int64_t label) { return memory_.get() + Offset(label); }
  const float* centre(int64_t label) const { return memory_.get() + Offset(label); }
  float* momentum(int64_t label) { return centre(label) + dimension_; }
  const float* momentum(int64_t label) const { return centre(label) + dimension_; }
  std::span<float> Of(ClassRange part);
  std::span<const float> Of(ClassRange part) const;
  std::span<float> values() { return {memory_.get(), count()}; }
  std::span<const float> values() const { return {memory_.get(), count()}; }

  // Copy a part to or from host memory.
  void Read(ClassRange part, std::span<float> host) const { place_->Copy(Of(part), host); }
  void Write(ClassRange part, std::span<const float> host) { place_->Copy(host, Of(part)); }

  uint64_t Checksum() const { return Checksum(range_); }
  uint64_t Checksum(ClassRange part) const {
    return place_->Checksum(part.begin, row_floats(), Of(part));
  }

 private:
  std::size_t count() const { return static_cast<std::size_t>(range_.size() * row_floats()); }
  std::size_t Offset(int64_t label) const {
    return static_cast<std::size_t>((label - range_.begin) * row_floats());
  }

  ClassRange range_;
  int64_t dimension_ = 0;
  RowStorage* place_ = &HostRows();
  std::shared_ptr<float> memory_;
};

// Returns the sum of RowChecksum() of rows in host memory. `values` begins with row `first`.
uint64_t RowsChecksum(int64_t first, int64_t row_floats, std::span<const float> values);

}  // namespace ringmaster::trainer::partial_fc
