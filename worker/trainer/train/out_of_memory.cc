#include "worker/trainer/train/out_of_memory.h"

#include <algorithm>
#include <string_view>

namespace ringmaster::trainer {
namespace {

// Returns the size at the start of `text`, such as "2.00 GiB"; empty if there is none.
std::string_view SizeAt(std::string_view text) {
  const std::size_t space = text.find_first_not_of("0123456789.");
  if (space == 0 || space == std::string_view::npos || text[space] != ' ') return {};
  const std::size_t end = text.find_first_of(" .,;", space + 1);
  return text.substr(0, std::min(end, text.size()));
}

// Returns the size that follows `words`; empty if there is none.
std::string_view SizeAfter(std::string_view text, std::string_view words) {
  const std::size_t at = text.find(words);
  return at == std::string_view::npos ? std::string_view() : SizeAt(text.substr(at + words.size()));
}

}  // namespace

std::string OutOfMemorySentence(const std::string& what, const std::string& needed_for,
                                const std::string& remedy) {
  const std::string_view asked = SizeAfter(what, "ried to allocate ");
  const std::string_view total = SizeAfter(what, "total capacity of ");
  const std::string_view free = SizeAfter(what, "of which ");
  std::string sentence = "the GPU ran out of memory";
  sentence +=
      asked.empty() ? " when memory was needed" : " when " + std::string(asked) + " were needed";
  sentence += " for " + needed_for;
  if (!total.empty() && !free.empty()) {
    sentence += ": " + std::string(free) + " of " + std::string(total) + " were free";
  }
  return sentence + "; " + remedy;
}

}  // namespace ringmaster::trainer
