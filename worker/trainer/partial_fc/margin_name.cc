#include "worker/trainer/partial_fc/margin_name.h"

#include <cstdlib>
#include <string_view>

namespace ringmaster::trainer::partial_fc {
namespace {

constexpr std::string_view kCombined = "combined(";

// Removes a number and the `end` that follows it from the front of `text`.
bool TakeNumber(const char*& text, char end, float& number) {
  char* stop = nullptr;
  number = std::strtof(text, &stop);
  if (stop == text || *stop != end) return false;
  text = stop + 1;
  return true;
}

}  // namespace

Result<Margin> ParseMargin(const std::string& name) {
  if (name == "arcface") return Margin{.m1 = 1, .m2 = 0.5F, .m3 = 0};
  if (name == "cosface") return Margin{.m1 = 1, .m2 = 0, .m3 = 0.4F};
  const Error wrong{
      ErrorKind::kInvalid,
      "--margin=" + name +
          " is not a valid margin; use arcface, cosface, or combined(m1,m2,m3) for cos(m1 θ + "
          "m2) - m3, with m1 in [1,4], m2 in [0,3] and m3 in [0,1]"};
  if (!name.starts_with(kCombined)) return wrong;
  const char* text = name.c_str() + kCombined.size();
  Margin margin;
  const bool whole = TakeNumber(text, ',', margin.m1) && TakeNumber(text, ',', margin.m2) &&
                     TakeNumber(text, ')', margin.m3) && *text == '\0';
  const auto within = [](float value, float low, float high) {
    return value >= low && value <= high;
  };
  const bool sound =
      whole && within(margin.m1, 1, 4) && within(margin.m2, 0, 3) && within(margin.m3, 0, 1);
  return sound ? Result<Margin>(margin) : wrong;
}

}  // namespace ringmaster::trainer::partial_fc
