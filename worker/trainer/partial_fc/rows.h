#pragma once

// Rows of the table of class centres: a row is the centre of a class, then its momentum. A pure
// function of (seed, class) until the class is first sampled. Not thread-safe.

#include <cstdint>
#include <span>
#include <vector>

#include "worker/trainer/partial_fc/class_sampling.h"

namespace ringmaster::trainer::partial_fc {

// Writes the first centre of `label`: normal, with mean 0 and standard deviation 0.01.
void InitialCentre(uint64_t seed, int64_t label, std::span<float> centre);

class Rows {
 public:
  Rows() = default;
  // As initialised from `seed`.
  Rows(ClassRange range, int64_t dimension, uint64_t seed);
  // Unspecified values.
  Rows(ClassRange range, int64_t dimension);

  const ClassRange& range() const { return range_; }
  int64_t dimension() const { return dimension_; }
  int64_t row_floats() const { return 2 * dimension_; }

  // REQUIRES: range().contains(label), or a range inside range(). Valid until moved or destroyed.
  float* centre(int64_t label) { return values_.data() + Offset(label); }
  const float* centre(int64_t label) const { return values_.data() + Offset(label); }
  float* momentum(int64_t label) { return centre(label) + dimension_; }
  const float* momentum(int64_t label) const { return centre(label) + dimension_; }
  std::span<float> Of(ClassRange part);
  std::span<const float> Of(ClassRange part) const;
  std::span<float> values() { return values_; }
  std::span<const float> values() const { return values_; }

 private:
  std::size_t Offset(int64_t label) const {
    return static_cast<std::size_t>((label - range_.begin) * row_floats());
  }

  // Without the zeros that a vector would write first.
  struct Uninitialised : std::allocator<float> {
    template <typename U>
    struct rebind {
      using other = Uninitialised;
    };
    template <typename U, typename... Args>
    void construct(U* at, Args&&... args) {
      if constexpr (sizeof...(Args) > 0) ::new (static_cast<void*>(at)) U(args...);
    }
  };

  ClassRange range_;
  int64_t dimension_ = 0;
  std::vector<float, Uninitialised> values_;
};

// The checksum of one row, and of many: a sum over rows, so that it does not depend on how they are
// spread, and the sums of all ranks add up to the whole table's. `values` begins with row `first`.
uint64_t RowChecksum(int64_t label, std::span<const float> row);
uint64_t RowsChecksum(int64_t first, int64_t row_floats, std::span<const float> values);

}  // namespace ringmaster::trainer::partial_fc
