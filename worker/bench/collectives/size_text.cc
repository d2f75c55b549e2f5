#include "worker/bench/collectives/size_text.h"

#include <charconv>
#include <string_view>

namespace ringmaster::bench {
namespace {

constexpr int64_t kMostBytes = int64_t{1} << 42;

// Returns the exponent of the power of two that the suffix stands for; -1 for an unknown suffix.
int ShiftOf(std::string_view suffix) {
  if (suffix.empty() || suffix == "B") return 0;
  if (suffix.size() == 2 && suffix[1] == 'B') suffix.remove_suffix(1);
  constexpr std::string_view kUpper = "KMG";
  constexpr std::string_view kLower = "kmg";
  if (suffix.size() != 1) return -1;
  std::size_t at = kUpper.find(suffix[0]);
  if (at == std::string_view::npos) at = kLower.find(suffix[0]);
  return at == std::string_view::npos ? -1 : 10 * (static_cast<int>(at) + 1);
}

}  // namespace

Result<int64_t> ParseSize(const std::string& text) {
  int64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  const int shift = ShiftOf(std::string_view(rest, static_cast<std::size_t>(end - rest)));
  if (error != std::errc() || shift < 0 || number < 0 || number > (kMostBytes >> shift)) {
    return Error{
        ErrorKind::kInvalid,
        "'" + text +
            "' is not a valid size; write a number of bytes, for example 8, 64K, 1M or 2G"};
  }
  return number << shift;
}

std::vector<int64_t> Sweep(int64_t begin, int64_t end, int64_t step, int64_t factor) {
  std::vector<int64_t> sizes;
  for (int64_t size = begin;; size = factor > 1 ? size * factor : size + step) {
    sizes.push_back(size);
    const bool last = factor > 1 ? size > end / factor : size > end - step;
    if (last) return sizes;
  }
}

}  // namespace ringmaster::bench
