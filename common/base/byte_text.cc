#include "common/base/byte_text.h"

#include <array>
#include <cmath>

namespace ringmaster {
namespace {

struct Unit {
  int64_t bytes;
  const char* name;
};
constexpr std::array<Unit, 6> kUnits{{{int64_t{1} << 50, "PiB"},
                                      {int64_t{1} << 40, "TiB"},
                                      {int64_t{1} << 30, "GiB"},
                                      {int64_t{1} << 20, "MiB"},
                                      {int64_t{1} << 10, "KiB"},
                                      {1, "bytes"}}};

const Unit& UnitOf(int64_t bytes) {
  for (const Unit& unit : kUnits) {
    if (bytes >= unit.bytes) return unit;
  }
  return kUnits.back();
}

std::string InUnit(int64_t bytes, const Unit& unit, Rounding rounding) {
  const double value = static_cast<double>(bytes) / static_cast<double>(unit.bytes);
  const double scale = value < 10 && unit.bytes > 1 ? 10 : 1;
  const double scaled = value * scale;
  const auto whole =
      static_cast<int64_t>(rounding == Rounding::kUp ? std::ceil(scaled) : std::floor(scaled));
  if (scale < 10 || whole % 10 == 0) {
    return std::to_string(scale < 10 ? whole : whole / 10);
  }
  return std::to_string(whole / 10) + "." + std::to_string(whole % 10);
}

}  // namespace

std::string BytesText(int64_t bytes, Rounding rounding) {
  const Unit& unit = UnitOf(bytes);
  return InUnit(bytes, unit, rounding) + " " + unit.name;
}

std::string BytesOfText(int64_t done, int64_t all) {
  const Unit& unit = UnitOf(all);
  return InUnit(done, unit, Rounding::kDown) + " of " + InUnit(all, unit, Rounding::kDown) + " " +
         unit.name;
}

}  // namespace ringmaster
