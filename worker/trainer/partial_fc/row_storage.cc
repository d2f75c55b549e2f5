#include "worker/trainer/partial_fc/row_storage.h"

#include <algorithm>

#include "worker/trainer/partial_fc/initial_centre.h"
#include "worker/trainer/partial_fc/rows.h"

namespace ringmaster::trainer::partial_fc {
namespace {

class HostPlace final : public RowStorage {
 public:
  bool on_host() const override { return true; }
  std::shared_ptr<float> Allocate(std::size_t count) override {
    return {new float[count], std::default_delete<float[]>()};
  }
  void Copy(std::span<const float> from, std::span<float> to) override {
    std::ranges::copy(from, to.begin());
  }
  void Initialise(uint64_t seed, int64_t first, int64_t dimension, std::span<float> rows) override {
    const auto width = static_cast<std::size_t>(dimension);
    for (std::size_t at = 0; at < rows.size(); at += 2 * width) {
      for (int64_t k = 0; k < dimension; k += kCentreFour) {
        InitialFour(seed, first, k, dimension, &rows[at]);
      }
      std::ranges::fill(rows.subspan(at + width, width), 0.0F);
      ++first;
    }
  }
  uint64_t Checksum(int64_t first, int64_t row_floats, std::span<const float> rows) override {
    return RowsChecksum(first, row_floats, rows);
  }
};

}  // namespace

RowStorage& HostRows() {
  static HostPlace place;
  return place;
}

std::span<float> PlacedFloats::Of(RowStorage& place, std::size_t count) {
  if (count > count_) {
    memory_.reset();
    count_ = 0;
    memory_ = place.Allocate(count);
    count_ = count;
  }
  return {memory_.get(), count};
}

}  // namespace ringmaster::trainer::partial_fc
