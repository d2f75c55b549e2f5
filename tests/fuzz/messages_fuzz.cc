// Fuzzes the codec of messages: a decoded message must not change when encoded and decoded again.

#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "common/control/messages.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  using namespace ringmaster::control;
  const auto message = Decode({reinterpret_cast<const char*>(data), size});
  if (!message.ok()) return 0;
  const std::string line = Encode(*message);
  const auto again = Decode(line);
  if (!again.ok() || Encode(*again) != line || line.find('\n') != std::string::npos) std::abort();
  return 0;
}
