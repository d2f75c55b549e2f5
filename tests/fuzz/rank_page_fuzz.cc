// Fuzzes the reading of a rank's page and of the kernel's data about its threads: any bytes must be
// decoded or rejected, and the resulting text must have a limited size.

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string_view>

#include "common/control/position_page.h"
#include "worker/agent/process_table/stack_text.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  using namespace ringmaster;
  std::array<uint64_t, control::kPositionWords> words{};
  std::memcpy(words.data(), data, std::min(size, sizeof words));
  if (const auto position = control::DecodePosition(words)) {
    if (control::DecodePosition(control::EncodePosition(*position)) != position) std::abort();
  }
  const auto counts = control::DecodeCounts(std::span<const uint64_t>(words).first<2>());
  if (counts.launched < -1 || counts.begun < -1) std::abort();
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (text.find("_Z") != std::string_view::npos)
    return 0;  // the C++ library's demangler does not limit its output
  agent::ThreadInfo thread{.id = 1, .name = "name", .state = agent::StateIn(text)};
  const std::string stack = agent::StackText({thread}, 2, text);
  if (agent::Shortened(stack, control::kMaxStackBytes).size() > control::kMaxStackBytes)
    std::abort();
  return 0;
}
