#include "common/base/cut_text.h"

#include <algorithm>

namespace ringmaster {

std::string CutText(std::string text, std::size_t most_bytes) {
  if (text.size() <= most_bytes) return text;
  std::size_t end = most_bytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  text.resize(end);
  return text;
}

std::string ListText(std::span<const std::string> items, std::size_t most) {
  std::string text;
  for (const std::string& item : items.first(std::min(items.size(), most))) {
    text += (text.empty() ? "" : ", ") + item;
  }
  if (items.size() > most) text += " and " + std::to_string(items.size() - most) + " more";
  return text;
}

}  // namespace ringmaster
