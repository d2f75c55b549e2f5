#include "worker/trainer/partial_fc/rows.h"

#include "worker/trainer/partial_fc/row_checksum.h"

namespace ringmaster::trainer::partial_fc {

Rows::Rows(ClassRange range, int64_t dimension, RowStorage& place)
    : range_(range), dimension_(dimension), place_(&place), memory_(place.Allocate(count())) {}

Rows Rows::Initial(ClassRange range, int64_t dimension, uint64_t seed, RowStorage& place) {
  Rows rows(range, dimension, place);
  place.Initialise(seed, range.begin, dimension, rows.values());
  return rows;
}

Rows Rows::On(RowStorage& place) const {
  Rows rows(range_, dimension_, place);
  (on_host() ? place : *place_).Copy(values(), rows.values());
  return rows;
}

std::span<float> Rows::Of(ClassRange part) {
  return values().subspan(Offset(part.begin), static_cast<std::size_t>(part.size() * row_floats()));
}

std::span<const float> Rows::Of(ClassRange part) const {
  return values().subspan(Offset(part.begin), static_cast<std::size_t>(part.size() * row_floats()));
}

uint64_t RowsChecksum(int64_t first, int64_t row_floats, std::span<const float> values) {
  const auto length = static_cast<std::size_t>(row_floats);
  uint64_t sum = 0;
  for (std::size_t at = 0; at < values.size(); at += length) {
    sum += RowChecksum(first++, values.data() + at, row_floats);
  }
  return sum;
}

}  // namespace ringmaster::trainer::partial_fc
